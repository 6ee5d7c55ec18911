"""Points that the engine itself made, some of them removed: the others restore as their source was."""

import contextlib
import os
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from engines import engine_for
from engines.base import Verdict
from storage import layout
from storage.places import remotes
from storage.points import merging, runs
from storage.points.places import Wish
from storage.points.store import Store
from storage.restoring import restoring
from tests.engines.peers import STARTED_AT, local_folder, task_for
from tests.engines.test_probing import KEY, serving
from tests.storage.building import picture
from tests.storage.test_restoring import ODD

FOLDER = "nas-7/nightly"


def change(source: Path, day: int) -> None:
    """Most files get another content; `either` is a file, a folder and a link in turn."""
    source.mkdir(exist_ok=True)
    for number, name in enumerate(each for each in ODD if len(each) < 100):
        (source / name).write_text(f"{name} {day}" if number % 4 != day % 4 else f"{name} as ever")
    (source / "stays").write_text("stays")
    either = source / "either"
    if either.is_dir():
        (either / "file").unlink()
        either.rmdir()
    either.unlink(missing_ok=True)
    if day % 3 == 0:
        either.write_text(f"{day}")
    elif day % 3 == 1:
        either.mkdir()
        (either / "file").write_text(f"{day}")
    else:
        either.symlink_to(f"day {day}")
    os.utime(source, (day, day))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "days", "goes"), [("directory", 6, ([2], [0, 3])), ("encrypted bucket", 4, ([0, 2],))]
)
def test_what_is_kept_comes_back_as_it_was(kind: str, days: int, goes: tuple[list[int], ...], tmp_path: Path) -> None:
    with contextlib.ExitStack() as served:
        given = ({}, {}, str(tmp_path / "repository"))
        if kind != "directory":
            given = served.enter_context(serving("s3", tmp_path / "served"))
        (tmp_path / "repository").mkdir()
        settings, secrets, path = given
        key = None if kind == "directory" else KEY
        location = remotes.location_of(path, settings, secrets, key)
        store, source, pictures = Store(location, threading.Event()), tmp_path / "source", {}
        for day in range(days):
            change(source, day)
            started_at = STARTED_AT + timedelta(days=day)
            task = task_for(local_folder(source), tmp_path, location=location, folder=FOLDER, started_at=started_at)
            result = engine_for("local").run(task, on_progress=lambda progress: None, stop=threading.Event())
            assert result.verdict in (Verdict.SUCCEEDED, Verdict.WARNINGS), result.error
            pictures[result.snapshot] = picture(source)

        points = runs.points(store, FOLDER)
        kept = set(points)
        for gone in ([points[number] for number in numbers] for numbers in goes):
            kept.difference_update(gone)
            removed = merging.remove(store, FOLDER, gone)
            assert removed.freed > 0
            for point in removed.present:
                report = restoring.restore(Wish(FOLDER, point, tmp_path / f"{point} {gone}"), store, tmp_path / "cache")
                assert report.failed == []
                assert picture(tmp_path / f"{point} {gone}") == pictures[point]
        oldest, *later = sorted(kept)
        assert runs.points(store, FOLDER) == [oldest, *later]
        assert set(store.names(f"{FOLDER}/{layout.VERSIONS}", folders=True)) == {*later}
