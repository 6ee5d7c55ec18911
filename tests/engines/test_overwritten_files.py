"""A copy onto a disk that changes the names that it is given."""

import os
from pathlib import Path
from threading import Event

import pytest

from storage import layout
from storage.places.location import Location, of_directory
from storage.points import checking, copying, manifests, overwritten_files, sweeping
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
    """The location as a folder of this host, or as rclone takes a server."""
    return of_directory(disk) if kind == "folder" else Location(str(disk), str(disk))


@pytest.mark.parametrize(("kind", "twin"), [*((each, "one") for each in KINDS), ("server", "another"), ("folder", "")])
def test_names_the_file_that_has_the_content_of_another_one(twin: str, kind: str, tmp_path: Path) -> None:
    """Whichever of the two came last, of one size or not, and also if a killed copy brought them. Neither is brought
    again over the other one.
    """
    store = first_repository(tmp_path, **{"a:b": twin})
    with renaming_disk(tmp_path / "renaming", "replaces") as disk:
        target = Store(place_of(kind, disk), Event())
        for left in ("left", twin, "two"):
            for manifest in disk.rglob(f"*{layout.MANIFEST_ENDING}"):
                manifest.unlink()
            for shared in disk.rglob("a_b"):
                shared.write_text(left)
                shared.with_name("unwanted").write_text(left)
            copied = copying.copy(store, target, FOLDER)
            [shared] = disk.rglob("a_b")
            kept = shared.read_text()
            loser = {twin: "a_b", "two": "a:b"}[kept]
            assert [wrong.partition(" in the copy")[0] for wrong in copied.wrong] == [
                f"{loser!r} has the content of another file"
            ]
            damaged = {copied.new[0]: [f"{shared.parent.name}/{loser}"]}
            assert copying.copy(store, target, FOLDER, damaged=damaged).wrong == copied.wrong
            assert shared.read_text() == kept


@pytest.mark.parametrize(
    ("kind", "names"), [("folder", "decomposes"), ("server", "upper-case"), *((each, "replaces") for each in KINDS)]
)
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


@pytest.mark.parametrize("kind", KINDS)
def test_names_what_is_not_there_or_is_different_without_a_twin(kind: str, tmp_path: Path) -> None:
    store = first_repository(tmp_path)
    target = Store(place_of(kind, tmp_path / "second"), Event())
    [point] = copying.copy(store, target, FOLDER).new
    assert store.manifest(FOLDER, point, tmp_path / "manifest")
    entries = {each.path: each for each in manifests.read(tmp_path / "manifest") if each.folder}
    files = tmp_path / "second" / layout.files_path(FOLDER)
    (files / entries["a_b"].place).unlink()
    (files / entries["plain"].place).write_text("longer")
    found = overwritten_files.look(store, target, layout.files_path(FOLDER), entries.values)
    assert (found.overwritten, found.others.keys()) == ({}, {entries[each].place for each in ("a_b", "plain")})
    assert "'a_b' is not in the copy" in found.others[entries["a_b"].place]
    assert "'plain' has another content in the copy" in found.others[entries["plain"].place]


@pytest.mark.parametrize("kind", KINDS)
def test_keeps_what_is_listed_under_another_name_when_the_remains_of_a_killed_removal_go(
    kind: str, tmp_path: Path
) -> None:
    store = first_repository(tmp_path, **{"d:e": "four", "sub?/f": "number"})
    with renaming_disk(tmp_path / "renaming", "replaces") as disk:
        target = Store(place_of(kind, disk), Event())
        [point] = copying.copy(store, target, FOLDER).new
        [renamed] = disk.rglob("d_e")
        renamed.with_name("remains").write_text("of a removed point")
        sweeping.put_marks(target, FOLDER, ["20200101T000000Z"])
        sweeping.sweep_left(target, FOLDER, and_removed=True)
        report = restore(Wish(FOLDER, point, tmp_path / "restored"), target, tmp_path / "cache")
        assert (report.failed, seen(tmp_path / "restored")) == ([], seen(tmp_path / "source"))
        assert not renamed.with_name("remains").exists()
