"""Digests of files that were read back while rclone brought others count only for the files that were read."""

import hashlib
import os
from pathlib import Path
from threading import Event

import pytest

from engines.rclone.early_digests import EarlyDigests
from storage import layout
from storage.points.entries import Entry
from storage.points.sorted_items import SortedItems
from tests.engines.peers import write_files
from tests.waiting import eventually

RUN = "20261128T100000Z"
TEXTS = {"a/b": "one", "a/é": "two", "c": "three", "d\u240ae": "four"}
WRITTEN = {"a/b": "one", "a/é": "two", "c": "three", "d\ne": "four"}


def entry(path: str, folder: str = RUN, **more: str) -> Entry:
    return Entry(path, size=len(TEXTS.get(path, "")), folder=folder, **more)


def read(folder: Path, *lists: str) -> EarlyDigests:
    """The digests that were read of the files that came."""
    found = SortedItems[tuple[str, tuple[int, ...], str]]()
    early = EarlyDigests(folder, RUN, found)
    with early.at_work(Event()):
        for number, listed in enumerate(lists):
            (folder / f"list-{number}").write_text(listed)
            early.await_list(RUN, str(folder / f"list-{number}"))
        eventually(lambda: found.count == len(TEXTS))
    return early


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return write_files(tmp_path / layout.FILES / RUN, **WRITTEN, unlisted="other")


def digests(**texts: str) -> dict[str, str]:
    return {path: hashlib.sha256(text.encode()).hexdigest() for path, text in texts.items()}


def test_each_listed_file_is_read_once_it_has_come(files: Path, tmp_path: Path) -> None:
    early = read(tmp_path, "".join(f"{each}\0" for each in [*TEXTS, "never/comes"]))
    entries = [entry(each) for each in sorted([*TEXTS, "never/comes", "unlisted"])]
    assert early.of(entries[:2]) | early.of(entries[2:]) == digests(**TEXTS)


def test_of_several_lists_each_is_read(files: Path, tmp_path: Path) -> None:
    early = read(tmp_path, *(f"{each}\0" for each in TEXTS))
    assert early.of([entry(each) for each in sorted(TEXTS)]) == digests(**TEXTS)


def test_a_file_that_is_another_one_by_now_is_read_again(files: Path, tmp_path: Path) -> None:
    os.utime(files / "a/b", (1_700_000_000, 1_700_000_000))
    early = read(tmp_path, "".join(f"{each}\0" for each in TEXTS))
    before = os.stat(files / "a/b")
    (files / "new").write_text("ONE")
    os.utime(files / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (files / "new").rename(files / "a/b")
    (files / "c").unlink()
    assert early.of([entry(each) for each in sorted(TEXTS)]).keys() == {"a/é", "d\u240ae"}


def test_a_file_of_another_place_with_the_same_path_has_none(files: Path, tmp_path: Path) -> None:
    early = read(tmp_path, "".join(f"{each}\0" for each in TEXTS))
    assert early.of([entry("a/b", f"{RUN}.2"), entry("c", stored="1"), entry("c", "")]) == {}


def test_where_files_are_not_as_they_are_here_nothing_is_read(tmp_path: Path) -> None:
    early = EarlyDigests(None, RUN, SortedItems())
    with early.at_work(Event()):
        early.await_list(RUN, str(tmp_path / "missing"))
    assert early.of([entry("c")]) == {}
