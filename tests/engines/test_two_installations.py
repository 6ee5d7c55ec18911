"""Runs of two installations in one repository on a remote, such as of a machine and its clone: no lock and no lease is
between them. Each makes a whole point, or none.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

import pytest

from engines.base import EngineResult, SourceSpec, Verdict
from storage import layout
from storage.places.location import Location
from storage.points import known, lost_results, removal, runs
from storage.points.deletions import Deletion
from storage.points.store import StorageFailed, Store
from tests.engines.peers import STARTED_AT, back_up, local_folder, point, points, specification, write_files

NAME, LATER = layout.name_of(STARTED_AT), STARTED_AT + timedelta(hours=1)
SLOW = pytest.mark.slow
KINDS = pytest.mark.parametrize("kind", ["local", pytest.param("sqlite", marks=SLOW)])


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

    def before(self, function: str, then: Callable[[], object], of: ModuleType | type = runs) -> None:
        """Have another run work before the next call of this function of a module."""
        whole = getattr(of, function)

        def called(*facts: Any, **how: Any) -> Any:
            self.patch.setattr(of, function, whole)
            then()
            return whole(*facts, **how)

        self.patch.setattr(of, function, called)

    def manifest(self, name: str) -> Path:
        return self.copy / layout.MANIFESTS / f"{name}{layout.MANIFEST_ENDING}"

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


@pytest.mark.parametrize("last", ["write_point", pytest.param("check_base", marks=SLOW), "put_marks"])
def test_a_run_and_the_removal_of_its_base_lose_no_file(
    last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`last`: the step before which the removal is made; or, of the removal, before which the run is made."""
    both, how = Installations(tmp_path, "local", monkeypatch), {"known": None}
    first = both.back_up(**how).snapshot
    write_files(tmp_path / "in", c="c", a="changed")
    base = both.back_up(started_at=LATER, **how).snapshot
    store = Store(both.location, Event())

    def back_up() -> EngineResult:
        return both.back_up(started_at=LATER + timedelta(hours=1), **how)

    if last == "put_marks":
        made = list[EngineResult]()
        both.before(last, lambda: made.append(back_up()), of=removal)
        removed = removal.remove(store, "copy", [base])
        result = made[0]
    else:
        both.before(last, lambda: removal.remove(store, "copy", [base]))
        result = back_up()
        removed = removal.remove(store, "copy", [])
    assert (result.verdict, result.files, removed.damaged) == (Verdict.SUCCEEDED, 3, ()), result
    both.check([first, result.snapshot])
    removal.remove(store, "copy", [first])
    there = both.copy / layout.FILES
    named = {each.place for each in point(both.copy, result.snapshot).values() if each.folder}
    assert named == {str(each.relative_to(there)) for each in there.rglob("*") if each.is_file()}


class Killed(BaseException):
    """The end of a process in the middle of its work."""


@pytest.mark.parametrize(
    ("brought", "then"),
    [
        ("d", "back up"),
        pytest.param("", "adopt", marks=SLOW),
        pytest.param("abc", "back up", marks=SLOW),
        pytest.param("d", "may not delete", marks=SLOW),
    ],
)
def test_a_point_whose_run_was_killed_before_its_last_look_counts_only_if_its_files_are_there(
    brought: str, then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, digests = Installations(tmp_path, "local", monkeypatch), dict[str, list[str]]()
    monkeypatch.setattr(known, "keep", lambda of, name, digest: digests.setdefault(name, []).append(digest) is None)

    def die() -> None:
        raise Killed

    def refuse(*facts: object) -> None:
        raise StorageFailed("access denied")

    first = both.back_up(known=digests).snapshot
    write_files(tmp_path / "in", c="c", a="changed")
    base = both.back_up(started_at=LATER, newest=first, known=digests).snapshot
    write_files(tmp_path / "in", **dict.fromkeys(brought, "new"))
    store = Store(both.location, Event(), known=digests)
    both.before("write_point", lambda: removal.remove(store, "copy", [base]))
    both.before("check_made", die)
    with pytest.raises(Killed):
        both.back_up(started_at=LATER + timedelta(hours=1), newest=base, known=digests)
    [_, killed] = points(both.copy)
    whole = [killed] if brought == "abc" else []
    if then == "adopt":
        assert [each["name"] for each in lost_results.unrecorded(store, "copy", [first])] == whole
        return
    if then == "may not delete":
        monkeypatch.setattr(Store, "remove", refuse)
    result = both.back_up(started_at=LATER + timedelta(hours=2), newest=first, known=digests)
    if then == "may not delete":
        assert "may lack files" in str(result.warnings)
        both.manifest(killed).unlink()
    both.check([first, *whole, result.snapshot])


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        pytest.param("check_base", "local", marks=SLOW),
        ("check_base", "sqlite"),
        ("write_point", "local"),
        pytest.param("write_point", "sqlite", marks=SLOW),
        ("check_made", "local"),
        pytest.param("check_made", "sqlite", marks=SLOW),
    ],
)
def test_nothing_is_left_of_a_run_if_everything_is_removed_at_its_end(
    step: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Installations(tmp_path, kind, monkeypatch)
    both.before(step, lambda: removal.remove_all(Store(both.location, Event()), "copy"))
    result = both.back_up(known=None)
    assert (result.verdict, "was removed in the meantime" in result.error) == (Verdict.REPOSITORY_FAILED, True), result
    assert [each for each in both.copy.rglob("*") if each.is_file()] == []


@pytest.mark.parametrize(("step", "of"), [pytest.param("check_nothing_came", runs, marks=SLOW), ("delete", Deletion)])
def test_of_a_run_that_begins_while_everything_is_removed_no_file_is_deleted(
    step: str, of: ModuleType | type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, store = Installations(tmp_path, "local", monkeypatch), Store(Location(str(tmp_path), str(tmp_path)), Event())
    write_files(both.copy / layout.FILES, **{"20261101T065755Z/old": "old"})
    both.before(step, lambda: both.back_up(known=None), of=of)
    with pytest.raises(StorageFailed, match="has begun while everything of it was removed"):
        removal.remove_all(store, "copy")
    both.check([NAME])
    assert removal.remove_all(store, "copy").points == (NAME,)
    assert not both.copy.exists()


@pytest.mark.parametrize("later", [pytest.param("its successor", marks=SLOW), "one after that"])
def test_a_point_without_a_row_stays_if_later_ones_of_a_scheduler_that_was_restored_go_by_it(
    later: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backup of the scheduler that was restored is from the moment between the manifest and the row."""
    both, digests = Installations(tmp_path, "local", monkeypatch), dict[str, list[str]]()
    monkeypatch.setattr(known, "keep", lambda of, name, digest: digests.setdefault(name, []).append(digest) is None)
    made = list[str]()
    for number in range(4):
        write_files(tmp_path / "in", **{f"only-{number}": "new"})
        when = STARTED_AT + timedelta(hours=number)
        made.append(both.back_up(started_at=when, newest="".join(made[-1:]), known=digests).snapshot)
    first, second, third, last = made
    both.manifest(last if later == "its successor" else third).unlink()
    there = [each for each in made if both.manifest(each).exists()]
    restored = {name: digests[name] for name in (first, second)}
    store = Store(both.location, Event(), known=restored)
    assert [each["name"] for each in lost_results.unrecorded(store, "copy", [first])] == [second]
    assert lost_results.sure_points(store, "copy", there, [first]) == [first, second]
    result = both.back_up(started_at=LATER + timedelta(hours=9), newest=first, known=restored)
    assert result.unchanged, "it is the base"
    both.check([*there, result.snapshot])


@KINDS
def test_a_run_whose_mark_and_manifest_are_not_listed_yet_succeeds(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, names = Installations(tmp_path, kind, monkeypatch), Store.names

    def without_the_new_ones(store: Store, path: str, **how: Any) -> list[str]:
        return [each for each in names(store, path, **how) if not each.startswith(NAME)]

    monkeypatch.setattr(Store, "names", without_the_new_ones)
    result = both.back_up()
    assert (result.verdict, result.error) == (Verdict.SUCCEEDED, "")
    both.check([NAME])
