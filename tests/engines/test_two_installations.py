"""Runs of two installations in one repository on a remote, such as of a machine and its clone: no lock and no lease is
between them. Each makes a whole point, or none.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engines.base import EngineResult, SourceSpec, Verdict
from storage import layout
from storage.places.location import Location
from storage.points import runs
from tests.engines.peers import STARTED_AT, back_up, local_folder, point, points, specification, write_files

NAME, LATER = layout.name_of(STARTED_AT), STARTED_AT + timedelta(hours=1)
KINDS = pytest.mark.parametrize("kind", ["local", "sqlite"])


class Installations:
    """Both at work in `copy`, a repository that is on no disk of this host."""

    def __init__(self, folder: Path, kind: str, patch: pytest.MonkeyPatch) -> None:
        self.copy, self.patch = folder / "copy", patch
        self.location = Location(str(folder), str(folder))
        write_files(folder / "in", a="a", b="b")
        with closing(sqlite3.connect(file := folder / "in.sqlite3")) as database, database:
            database.execute("CREATE TABLE pair (a)")
        is_dump = kind == "sqlite"
        self.source = specification("sqlite", path=str(file), secret=None) if is_dump else local_folder(folder / "in")
        self.staging = folder / "staging"

    def back_up(self, source: SourceSpec | None = None, **fields: Any) -> EngineResult:
        """A run that knows no point, on a separate host."""
        self.staging /= "of another host"
        where = {"location": self.location, "staging": str(self.staging), "known": {}}
        return back_up(source or self.source, self.copy, **where | fields)

    def before(self, function: str, then: Callable[[], object]) -> None:
        """Have another run work before the next call of this function of `runs`."""
        whole = getattr(runs, function)

        def called(*facts: Any, **how: Any) -> Any:
            self.patch.setattr(runs, function, whole)
            then()
            return whole(*facts, **how)

        self.patch.setattr(runs, function, called)

    def check(self, names: list[str]) -> None:
        """All files of these points, and no other points, are there."""
        assert points(self.copy) == names
        entries = [each for name in names for each in point(self.copy, name).values() if each.folder]
        assert entries
        assert [each for each in entries if not (self.copy / layout.FILES / each.place).exists()] == []


@KINDS
def test_a_run_whose_files_another_one_may_have_deleted_makes_no_point(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Installations(tmp_path, kind, monkeypatch)
    both.before("check_base", lambda: both.back_up(started_at=LATER))
    result = both.back_up()
    assert (result.verdict, "another run has taken over" in result.error) == (Verdict.REPOSITORY_FAILED, True)
    both.check([layout.name_of(LATER)])


@KINDS
def test_two_runs_that_begin_in_the_same_second_share_no_name(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Installations(tmp_path, kind, monkeypatch)
    both.before("mark", both.back_up)
    result = both.back_up()
    assert (result.snapshot, "has begun as" in result.error) in [(f"{NAME}-2", False), ("", True)], result
    both.check(list(filter(None, [NAME, result.snapshot])))


@KINDS
def test_a_run_that_fails_deletes_nothing_of_one_that_is_under_way(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Installations(tmp_path, kind, monkeypatch)
    gone = specification(kind, path=str(tmp_path / "gone"), secret=None)
    both.before("check_base", lambda: both.back_up(source=gone, started_at=LATER))
    result = both.back_up()
    assert result.snapshot == NAME, result
    both.check([NAME])
