"""A copy onto a disk that changes the names that it is given."""

import os
from pathlib import Path
from threading import Event

import pytest

from storage import layout
from storage.places.location import Location, of_directory
from storage.points import checking, copying
from storage.points.store import Store
from storage.restoring.base import Wish
from storage.restoring.into_folder import restore
from tests.engines.peers import back_up, local_folder, write_files
from tests.engines.small_trees import seen
from tests.storage.renaming_disk import renaming_disk

pytestmark = pytest.mark.slow
KINDS = ("folder", "server")
FOLDER = "nas-7/nightly"
TREE = {"é/ü": "accents", "plain": "p", "Case": "case", "a_b": "two", "c_d": "three"}


def first_repository(folder: Path, **more: str) -> Store:
    """One of a single point."""
    files = write_files(folder / "source", **TREE, **more)
    for each in files.rglob("*"):
        os.utime(each, (1_700_000_000, 1_700_000_000))
    store = Store(of_directory(folder / "first"), Event())
    assert back_up(local_folder(files), folder, location=store.location, folder=FOLDER).snapshot
    return store


def place_of(kind: str, disk: Path) -> Location:
    """As a folder of this host, or as rclone takes a server."""
    return of_directory(disk) if kind == "folder" else Location(str(disk), str(disk))


@pytest.mark.parametrize("kind", KINDS)
def test_names_the_file_that_has_the_content_of_another_one(kind: str, tmp_path: Path) -> None:
    """Whichever of the two came last, and also if a killed copy brought them."""
    store = first_repository(tmp_path, **{"a:b": "one"})
    with renaming_disk(tmp_path / "renaming", "replaces") as disk:
        target = Store(place_of(kind, disk), Event())
        for left in ("", "one", "two"):
            for manifest in disk.rglob(f"*{layout.MANIFEST_ENDING}"):
                manifest.unlink()
            for shared in disk.rglob("a_b"):
                shared.write_text(left)
            copied = copying.copy(store, target, FOLDER)
            [shared] = disk.rglob("a_b")
            loser = {"one": "'a_b'", "two": "'a:b'"}[shared.read_text()]
            assert [wrong.partition(" in the copy")[0] for wrong in copied.wrong] == [
                f"{loser} has the content of another file"
            ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", ["decomposes", "upper-case", "replaces"])
def test_holds_each_file_that_has_a_name_of_its_own_there(names: str, kind: str, tmp_path: Path) -> None:
    store = first_repository(tmp_path, **{"d:e": "four", "f": "five"})
    with renaming_disk(tmp_path / "renaming", names) as disk:
        target = Store(place_of(kind, disk), Event())
        copied = copying.copy(store, target, FOLDER)
        assert (copied.wrong, len(copied.new)) == ([], 1)
        report = restore(Wish(FOLDER, copied.new[0], tmp_path / "restored"), target, tmp_path / "cache")
        assert (report.failed, seen(tmp_path / "restored")) == ([], seen(tmp_path / "source"))
        checked = checking.check(target, FOLDER, part="", after="", total=0, share=1.0)
        assert (checked.damaged, checked.files) == ([], len(TREE) + 2)
