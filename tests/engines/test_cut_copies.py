"""Copies that an encrypted repository cannot read back, since their files went on beyond the announced end: none stands
for its file.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from engines.base import EngineResult, SourceSpec, Verdict
from engines.rclone import cut_copies
from engines.rclone.cut_copies import BLOCK, CUT
from storage.places import rclone
from storage.places.location import Location
from storage.points.store import Store
from storage.restoring.base import Wish
from storage.restoring.into_folder import restore
from tests.engines.peers import STARTED_AT, run, task_for
from tests.engines.webdav_shares import Share
from tests.storage.repositories import encrypted, webdav

FOLDER = "nas-7/nightly"
MANY = {f"b{number}": b"%d" % number for number in range(9)}


def backed_up(source: SourceSpec, location: Location, day: int) -> EngineResult:
    started = STARTED_AT + timedelta(days=day)
    return run(task_for(source, Path("/unused"), location=location, folder=FOLDER, started_at=started))


def come_back(location: Location, result: EngineResult, into: Path) -> dict[str, bytes]:
    restore(Wish(FOLDER, result.snapshot, into), Store(location, Event()), into.with_suffix(".cache"))
    return {each.name: each.read_bytes() for each in into.iterdir()}


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Location]:
    (tmp_path / "repository").mkdir()
    with webdav(tmp_path / "repository") as found:
        yield encrypted(found)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the copies that are read back."""
    found, kept = list[str](), cut_copies._unreadable
    monkeypatch.setattr(
        cut_copies, "_unreadable", lambda store, at, names: (found.extend(names), kept(store, at, names))[1]
    )
    return found


@pytest.mark.parametrize("name", ["endless", pytest.param("endless.", marks=pytest.mark.slow)])
def test_a_copy_that_cannot_be_read_back_stands_for_no_file(
    name: str, location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rclone, "SLACK", rclone.ANY)  # the repository answers before any limit is reached
    share = Share(**{name: b"old"}, **MANY)
    with share.served() as source:
        first = backed_up(source, location, 0)
        share.files |= {name: b"x" * 100_000, "new": b"new"}
        share.endless = {name}
        result = backed_up(source, location, 1)
        assert come_back(location, result, tmp_path / "back") == {name: b"old", "new": b"new", **MANY}
    assert first.verdict is Verdict.SUCCEEDED, first
    assert result.warnings == ("1 file was not copied", f"{name}: {CUT}"), result


def test_no_copy_is_read_back_if_no_more_came_than_was_announced(
    location: Location, looked_at: list[str], tmp_path: Path
) -> None:
    sizes = (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK)
    share = Share(**{f"{size}": b"x" * size for size in sizes})
    with share.served() as source:
        result = backed_up(source, location, 0)
    assert (result.verdict, result.new, looked_at) == (Verdict.SUCCEEDED, len(sizes), [])
    assert {name: len(content) for name, content in come_back(location, result, tmp_path / "back").items()} == {
        f"{size}": size for size in sizes
    }
