"""What a run finds and leaves in the folder of its assignment."""

from datetime import timedelta
from pathlib import Path
from threading import Event

from sources.storage import layout, location, merging, runs
from sources.storage.store import Store
from tests.sources.storage.played_runs import ASSIGNMENT, BEGAN, Played


def test_a_run_that_was_killed_after_its_point_was_made_loses_nothing_of_an_earlier_one(tmp_path: Path) -> None:
    played, store = Played(tmp_path), Store(location.of_directory(tmp_path), Event())
    played.back_up({"a": "1", "deleted": "x"})
    killed = played.back_up({"a": "1"})
    mark = played.folder / layout.MANIFESTS / f"{killed}{runs.UNFINISHED}"
    mark.touch()
    begun = runs.begin(store, ASSIGNMENT, BEGAN + timedelta(days=3))
    runs.end(store, ASSIGNMENT, begun.name)
    assert not mark.exists()
    removed = played.back_up({"a": "2"})
    played.back_up({"a": "3"})
    merging.remove(store, ASSIGNMENT, [removed])
    for point in played.points():
        assert played.restored(point) == played.expected[point]
