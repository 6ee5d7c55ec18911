"""What a run finds and leaves in the folder of its assignment."""

from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from sources.storage import layout, location, merging, runs
from sources.storage.location import Location
from sources.storage.store import StorageFailed, Store
from tests.sources.storage.played_runs import ASSIGNMENT, BEGAN, Played


def test_a_run_that_was_killed_after_its_point_was_made_loses_nothing_of_an_earlier_one(tmp_path: Path) -> None:
    played, store = Played(tmp_path), Store(location.of_directory(tmp_path), Event())
    played.back_up({"a": "1", "deleted": "x"})
    killed = played.back_up({"a": "1"})
    mark = played.folder / layout.MANIFESTS / f"{killed}{runs.UNFINISHED}"
    mark.touch()
    begun = runs.begin(store, ASSIGNMENT, BEGAN + timedelta(days=3), runs.heal)
    runs.end(store, ASSIGNMENT, begun.name)
    assert not mark.exists()
    removed = played.back_up({"a": "2"})
    played.back_up({"a": "3"})
    merging.remove(store, ASSIGNMENT, [removed])
    for point in played.points():
        assert played.restored(point) == played.expected[point]


def test_on_a_remote_an_engine_that_wakes_late_takes_no_old_content_and_makes_no_point(tmp_path: Path) -> None:
    """Its machine was frozen for longer than its lease, and another run has begun meanwhile."""
    played, store = Played(tmp_path), Store(Location(str(tmp_path), str(tmp_path)), Event())
    first = played.back_up({"a": "old"})
    frozen = runs.begin(store, ASSIGNMENT, BEGAN + timedelta(days=2), runs.heal)
    store.move(f"{ASSIGNMENT}/{layout.CURRENT}", f"{ASSIGNMENT}/{layout.VERSIONS}/{frozen.name}")
    runs.begin(store, ASSIGNMENT, BEGAN + timedelta(days=3), runs.heal)
    assert (played.current / "a").read_text() == "old"
    (played.current / "a").write_text("late")
    with pytest.raises(StorageFailed, match="another run has taken over"):
        runs.check_it_goes_on(store, ASSIGNMENT, frozen.name)
    assert played.restored(first) == {"a": "old"}


def test_a_file_of_the_source_that_is_called_like_a_piece_stays(tmp_path: Path) -> None:
    played = Played(tmp_path)
    for name in ("mine.rclone-partial", "piece.12ab34cd.rclone-partial"):
        (played.current / name).touch()
    runs.remove_pieces(Store(location.of_directory(tmp_path), Event()), ASSIGNMENT)
    assert [each.name for each in played.current.iterdir()] == ["mine.rclone-partial"]
