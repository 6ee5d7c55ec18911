"""Restores into one target, at the same time or one after another that was killed, do not take each other's files."""

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest

from storage.folders.beneath import Beneath
from storage.folders.staging import StagingFolder, title_of
from storage.places.location import of_directory
from storage.points.store import StorageStopped, Store
from storage.restoring.base import RestoreProgress, Wish
from storage.restoring.into_folder import restore
from tests.engines.peers import local_folder, run, task_for, tree, write_files
from tests.engines.webdav_shares import Share
from tests.storage.repositories import encrypted

AT = datetime(2026, 11, 21, 6, 57, 55, tzinfo=UTC)


def test_what_a_killed_restore_of_another_source_left_is_not_taken(tmp_path: Path) -> None:
    """Both were backed up in the same second; neither has digests yet."""
    place = encrypted(of_directory(tmp_path))
    store, points = Store(place, Event()), set[str]()
    for name in ("one", "two"):
        with Share(a=f"of {name}".encode(), b=b"more").served() as source:
            result = run(task_for(source, tmp_path, location=place, folder=name, started_at=AT))
        points.add(result.snapshot)
    [point] = points

    def stopped(step: RestoreProgress) -> None:
        raise StorageStopped

    target = tmp_path.with_name(f"{tmp_path.name}-restored")
    with pytest.raises(StorageStopped):
        restore(Wish("one", point, target), store, tmp_path / "cache", stopped)
    report = restore(Wish("two", point, target, overwrite=True), store, tmp_path / "cache")
    assert (report.failed, (target / "a").read_text(), (target / "b").read_text()) == ([], "of two", "more")


def test_what_two_restores_make_at_a_time_are_two_things(tmp_path: Path) -> None:
    target = Beneath.opened(tmp_path)
    first, second = (StagingFolder(target, title_of("nas", "20261121T065755Z")) for _ in range(2))
    for each in (first, second):
        Path(each.outside, "one").write_text("of one")
        Path(each.outside, "two").write_text("of two")
    made = [ExitStack(), ExitStack()]
    for stack, staging, name in zip(made, (first, second), (b"one", b"two"), strict=True):
        stack.enter_context(staging.copied(name, name))
    for stack in made:
        stack.close()
    for each in (first, second):
        each.close(remove=True)
    target.close()
    assert tree(tmp_path) == {"one": "of one", "two": "of two"}


def test_a_restore_that_begins_in_the_middle_of_another_one_takes_nothing_from_it(tmp_path: Path) -> None:
    place = of_directory(tmp_path)
    files = write_files(
        tmp_path.with_name(f"{tmp_path.name}-files"), **{f"{number}/file": f"{number}" for number in range(9)}
    )
    (files / "link").symlink_to("0/file")
    point = run(task_for(local_folder(files), tmp_path, location=place, folder="one", started_at=AT)).snapshot
    wish = Wish("one", point, tmp_path.with_name(f"{tmp_path.name}-restored"), overwrite=True)
    store, reports = Store(place, Event()), list[object]()

    def again(step: RestoreProgress) -> None:
        if not reports:
            reports.append(())
            reports.append(restore(wish, store, tmp_path / "cache").failed)

    assert restore(wish, store, tmp_path / "cache", again).failed == []
    assert reports == [(), []]
    assert tree(wish.target) == tree(files)
    assert [each.name for each in wish.target.iterdir() if each.name.startswith(".")] == []
