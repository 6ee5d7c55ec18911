"""Folders of this host that may be read and not entered, entered and not read, or neither, or no more; and files that
cannot be read, whatever the reason."""

import errno
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from engines.base import BackupTask, Verdict
from engines.rclone import bringing
from storage.folders.beneath import LIST
from storage.folders.walking import folders_below
from storage.points import lost_results
from storage.recover import showing
from tests.engines.peers import STARTED_AT, back_up, held, local_folder, point, task_for, tree, write_files
from tests.engines.restic_runs import FOLDER
from tests.engines.unprivileged import in_a_child, without_capabilities
from tests.repositories import RepositoryHere, in_each_format
from tests.storage.renaming_disk import AS_GIVEN, renaming_disk

FILES = {"a": "a", "closed/x": "x", "closed/sub/y": "y", "open/z": "z"}
MODES = [0o444, 0o111, 0]
DENIED = "permission denied"
ERRORS = (errno.EPERM, errno.ESTALE, errno.ENODATA, errno.ETIMEDOUT, errno.EIO, errno.EUCLEAN, errno.ENOKEY)


@pytest.fixture
def task(tmp_path: Path) -> BackupTask:
    """The second backup of a source, of the next day."""
    source = local_folder(write_files(tmp_path / "source", **FILES))
    assert back_up(source, tmp_path / "copy").verdict is Verdict.SUCCEEDED
    write_files(tmp_path / "source", **{"a": "another", "closed/x": "another"})
    return task_for(source, tmp_path / "copy", started_at=STARTED_AT + timedelta(days=1))


@pytest.mark.parametrize("mode", MODES)
def test_one_is_an_exception_and_all_that_is_below_stays(mode: int, task: BackupTask, tmp_path: Path) -> None:
    (tmp_path / "source/closed").chmod(mode)
    result = without_capabilities(task)
    assert (result.verdict, held(tmp_path / "copy")) == (Verdict.WARNINGS, FILES | {"a": "another"}), result
    why = {path: entry.why for path, entry in point(tmp_path / "copy", result.snapshot).items() if entry.why}
    below = dict.fromkeys(("closed/sub", "closed/sub/y", "closed/x"), f"its folder could not be listed: {DENIED}")
    assert why == {"closed": DENIED} | below


@pytest.mark.parametrize("mode", MODES)
def test_one_that_closes_after_it_was_listed_costs_its_own_files_alone(
    mode: int, task: BackupTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring = bringing.bring

    def closing(*arguments: object) -> object:
        (tmp_path / "source/closed").chmod(mode)
        return bring(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(bringing, "bring", closing)
    result = without_capabilities(task)
    assert (result.verdict, held(tmp_path / "copy")) == (Verdict.WARNINGS, FILES | {"a": "another"}), result
    assert [path for path, entry in point(tmp_path / "copy", result.snapshot).items() if entry.why] == ["closed/x"]


@in_each_format
def test_what_may_not_be_read_is_named_in_its_point_and_the_rest_comes_back(format: str, tmp_path: Path) -> None:
    source, repository = write_files(tmp_path / "source", **FILES), RepositoryHere(format, tmp_path)
    assert repository.back_up(local_folder(source)).verdict is Verdict.SUCCEEDED
    write_files(source, secret="x", later="later")
    (source / "secret").chmod(0)
    (source / "closed").chmod(0)
    result = without_capabilities(repository.task(local_folder(source)))
    assert result.verdict is Verdict.WARNINGS, result
    assert {"secret", "closed"} <= {each.partition(":")[0].rpartition("/")[2] for each in result.warnings}
    assert [each["complete"] for each in lost_results.unrecorded(repository.store, FOLDER, [])] == [True, False]
    report = repository.restored(tmp_path / "back")
    lacking = "the backup was incomplete" if repository.is_restic else "since they could not be read or copied later"
    assert lacking in showing.describe(report, dry_run=False)[1]
    rest = {"a": "a", "open/z": "z", "later": "later"}
    assert tree(tmp_path / "back").items() >= rest.items()


def test_a_source_that_may_not_be_entered_is_named(task: BackupTask, tmp_path: Path) -> None:
    (tmp_path / "source").chmod(0o444)
    result = without_capabilities(task)
    assert result.verdict is Verdict.SOURCE_FAILED
    assert result.error.endswith("source cannot be listed: Permission denied"), result


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("closed", ["b", "b/c", "b/c/d"])
@pytest.mark.parametrize("is_late", [False, True], ids=["before", "during"])
def test_a_walk_passes_over_one(is_late: bool, closed: str, mode: int, tmp_path: Path) -> None:
    write_files(tmp_path / "top", **{f"{each}/file": "" for each in ("a", "b/c/d", "b/e", "f")})

    def walk() -> Iterator[str]:
        top = os.open(tmp_path / "top", LIST)
        for way, _, _ in folders_below(top):
            yield "/".join(way)
            if "d" in way:
                (tmp_path / "top" / closed).chmod(mode)

    if not is_late:
        (tmp_path / "top" / closed).chmod(mode)
    try:
        found = in_a_child(lambda: "\n".join(walk())).split("\n")
    finally:
        (tmp_path / "top" / closed).chmod(0o755)
    assert {"", "a", "f"} <= set(found)
    assert ("b/e" in found) or closed == "b"
    assert len(found) == len(set(found))


@pytest.fixture(autouse=True)
def _opened(tmp_path: Path) -> Iterator[None]:
    """Folders that can be removed by any account afterwards."""
    yield
    for each in ("source", "source/closed"):
        if (tmp_path / each).exists():
            (tmp_path / each).chmod(0o755)


@pytest.mark.slow
def test_a_file_that_cannot_be_opened_or_read_is_an_exception_whatever_the_error(tmp_path: Path) -> None:
    bad = {f"{what} {number}": f"{what} error {number}" for what in ("open", "read") for number in ERRORS}
    before = dict.fromkeys([*bad, *map(str, range(len(bad)))], "first")
    with renaming_disk(tmp_path / "failing", AS_GIVEN) as disk:
        write_files(tmp_path / "failing/under", **before)
        first = back_up(local_folder(disk), tmp_path / "copy")
        assert (first.verdict, held(tmp_path / "copy")) == (Verdict.SUCCEEDED, before), first
        write_files(tmp_path / "failing/under", **bad, **{"1": "second", "new": "new"})
        result = back_up(local_folder(disk), tmp_path / "copy", started_at=STARTED_AT + timedelta(days=1))
    assert (result.verdict, held(tmp_path / "copy")) == (Verdict.WARNINGS, before | {"1": "second", "new": "new"})
    entries = point(tmp_path / "copy", result.snapshot)
    assert {path: entry.as_of for path, entry in entries.items() if entry.why} == dict.fromkeys(bad, first.snapshot)
