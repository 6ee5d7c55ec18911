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
from engines.rclone.cut_copies import BLOCK, CUT, OF_A_BLOCK, OF_A_FILE, PIECE
from storage.places import rclone
from storage.places.location import Location
from storage.points.store import StorageFailed, Store
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["large", "large.bin", pytest.param("x" * 100, id="a long name")])
def test_no_more_of_a_copy_is_read_back_than_it_has(
    name: str, location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rclone, "SLACK", 2**16)
    store, at = Store(location, Event()), f"{FOLDER}/files/run"
    (tmp_path / name).write_bytes(b"x" * 40 * BLOCK)
    store.put(tmp_path / name, f"{at}/{name}")
    [stored] = [each for each in (tmp_path / "repository").rglob("*") if each.is_file()]
    with stored.open("r+b") as opened:
        opened.truncate(stored.stat().st_size - 1)
    assert cut_copies._unreadable(store, at, {name: stored.stat().st_size}) == [name]
    with pytest.raises(StorageFailed, match="more than 65,646 bytes came"):
        cut_copies._unreadable(store, at, {name: 100})


def test_no_copy_is_read_back_if_no_more_came_than_was_announced_unless_it_ends_as_a_piece_of_nextcloud(
    location: Location, looked_at: list[str], tmp_path: Path
) -> None:
    ends = [number * (PIECE - 16 * OF_A_BLOCK) - OF_A_FILE for number in (1, 2, 10)]
    sizes = (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, *ends)
    share = Share(**{f"{size}": b"x" * size for size in sizes})
    with share.served() as source:
        result = backed_up(source, location, 0)
    assert (result.verdict, result.new) == (Verdict.SUCCEEDED, len(sizes))
    assert sorted(looked_at, key=int) == [str(each) for each in ends]
    assert {name: len(content) for name, content in come_back(location, result, tmp_path / "back").items()} == {
        f"{size}": size for size in sizes
    }
