"""Trees of thousands of levels: backed up and restored as far as a manifest can name them, and the rest is named."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from engines import staging
from engines.base import Verdict
from engines.rclone.mirror import _cleared
from engines.restores import drilling
from engines.restores.scratch import Scratch
from storage.folders.scratch import remove
from storage.places import remotes
from storage.places.location import Location
from storage.points.bounds import TOO_DEEP
from storage.restic import fetching
from storage.restoring import into_folder
from storage.restoring.base import RestoreRefused, Wish
from storage.stores import store_of
from tests.engines.deep_trees import make_levels
from tests.engines.peers import local_folder, run, task_for, write_files
from tests.engines.restic_runs import FOLDER, back_up, location_at, restic_task
from tests.programs import needs_restic

FILES = {"many/0": "file", "many/1": "file"}


@pytest.fixture
def emptied(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, if there is one: a disk may take a minute for some thousand folders."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else tmp_path))
    yield folder
    remove(folder)  # pytest's own removal would end at a thousand levels


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "levels"), [("plain", 5_000), ("encrypted", 1_100), pytest.param("restic", 1_100, marks=needs_restic)]
)
def test_a_deep_tree_is_backed_up_and_comes_back_as_far_as_a_manifest_names_it(
    kind: str, levels: int, emptied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "BY_NAME", 0)  # restic brings the whole tree, as for 1,000 files
    source = local_folder(make_levels(write_files(emptied / "source", **FILES), levels))
    if kind == "restic":
        location = location_at(emptied / "repository")
        result = back_up(restic_task(source, location))
    else:
        (emptied / "repository").mkdir()
        location = remotes.location_of(str(emptied / "repository"), {}, {}, "k" * 64 if kind == "encrypted" else None)
        result = run(task_for(source, emptied / "repository", location=location, folder=FOLDER))
        assert result.verdict is Verdict.WARNINGS
        assert any(each.endswith(TOO_DEEP) for each in result.warnings), result
    assert result.snapshot, result
    check_restores(location, result.snapshot.partition("/")[0], emptied)


def check_restores(location: Location, point: str, tmp_path: Path) -> None:
    store, wish = store_of(location, Event()), Wish(FOLDER, point, tmp_path / "back")
    report = into_folder.restore(wish, store, tmp_path / "cache")
    assert (report.files, report.failed, report.missing_files) == (len(FILES) + 3, [], 1)
    assert TOO_DEEP in report.missing[0]
    assert {*os.listdir(wish.target)} == {"d", "many"}
    drilled = drilling.drill(store, FOLDER, Scratch(folder=str(tmp_path / "drills"), reserve=0))
    assert (drilled.error, drilled.files, drilled.missing_files) == ("", len(FILES) + 3, 1)
    if not location.is_restic:
        full = replace(wish, target=make_levels(tmp_path / "full", 1_500, every=0))
        assert into_folder.restore(full, store, tmp_path / "cache").failed == []
        (full.target / "d/d/other").touch()
        with pytest.raises(RestoreRefused, match="it holds d/d/other;"):
            into_folder.restore(full, store, tmp_path / "cache")


@pytest.mark.slow
def test_the_size_of_a_mirror_is_found_and_it_is_removed(emptied: Path) -> None:
    folder = make_levels(emptied / "staging" / FOLDER, 1_500)
    write_files(folder, **{"d/d/whole": "whole", "d/d/part.0a1b2c3d.rclone-partial": "part"})
    assert _cleared(folder) >= len("whole")
    assert {*os.listdir(folder / "d/d")} == {"d", "whole"}
    assert _cleared(emptied / "none") == 0
    assert staging.remove(emptied / "staging", FOLDER)
