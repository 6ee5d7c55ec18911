"""A folder of a host comes back as it was: owners, modes, attributes and hard links; and what did not is said."""

import os
import stat
import struct
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from storage import layout
from storage.points import manifests
from storage.points.manifests import Entry, Header
from storage.restoring import into_folder, placing, targets
from storage.restoring.attributes import ACL, CAPABILITY, Owners
from storage.restoring.base import Wish
from tests.engines.peers import local_folder, write_files
from tests.repositories import RepositoryHere, in_each_format
from tests.storage import other_accounts
from tests.storage.building import ASSIGNMENT, Built, WithoutPrograms, picture
from tests.storage.extended_attributes import BOB, READ_BY_BOB, attributes, set_attribute
from tests.storage.other_accounts import WORKER, as_another, needs_root
from tests.storage.restored_points import restore

home = other_accounts.home

__all__ = ["home"]

ANN = 4711
RIGHTS = ("capabilities", "setuid and setgid")
NET_BIND = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)


@pytest.fixture
def built(home: Path) -> Built:
    built = Built(home / "built", owners=True)
    built.write("etc/shadow", "x", 0o640)
    built.write("bin/su", "program", 0o4755)
    built.write("srv/shared/a", "a", 0o664)
    (built.source / "srv/shared").chmod(0o3770)
    for name in ("b", "c/d", "0"):
        (built.source / "srv/shared" / name).parent.mkdir(exist_ok=True)
        os.link(built.source / "srv/shared/a", built.source / "srv/shared" / name)
    (built.source / "srv/link").symlink_to("shared")
    return built


def owners(folder: Path) -> dict[str, tuple[int, int]]:
    found = {str(path.relative_to(folder)): path.lstat() for path in folder.rglob("*")}
    return {path: (facts.st_uid, facts.st_gid) for path, facts in found.items()}


@needs_root
def test_root_puts_back_owners_modes_attributes_and_hard_links(built: Built, home: Path) -> None:
    for number, path in enumerate(sorted(built.source.rglob("*"))):
        if path.name not in ("a", "b", "d", "0"):
            mode = path.lstat().st_mode
            os.chown(path, ANN + number, BOB + number, follow_symlinks=False)
            if not path.is_symlink():
                path.chmod(stat.S_IMODE(mode))
    set_attribute(built.source / "etc/shadow", "user.note", b"\0of ann")
    set_attribute(built.source / "etc/shadow", f"{ACL}access", READ_BY_BOB)
    set_attribute(built.source / "srv/shared", f"{ACL}default", READ_BY_BOB)
    set_attribute(built.source / "bin/su", CAPABILITY, NET_BIND)
    point = built.back_up()
    (home / "to").mkdir()
    os.setxattr(home / "to", f"{ACL}default", READ_BY_BOB)  # which is handed down to what is made there

    report = restore(built, point, home / "to")

    assert (report.failed, report.not_set) == ([], [])
    assert picture(home / "to") == picture(built.source)
    assert owners(home / "to") == owners(built.source)
    assert attributes(home / "to") == attributes(built.source)
    names = [(home / "to/srv/shared" / each).stat() for each in ("a", "b", "c/d", "0")]
    assert len({each.st_ino for each in names}) == 1


@needs_root
def test_a_file_that_is_there_already_keeps_its_owner_and_mode_and_is_named(built: Built, home: Path) -> None:
    target, point = home / "to", built.back_up()
    restore(built, point, target)
    assert restore(built, point, target).not_set == []
    os.chown(target / "etc/shadow", ANN, BOB)
    (target / "bin/su").chmod(0o755)
    (target / "srv/shared/a").chmod(0o666)
    before = {each: (target / each).stat() for each in ("etc/shadow", "bin/su", "srv/shared/a")}
    for overwrite in (False, True):
        wish = Wish(ASSIGNMENT, point, target, overwrite=overwrite)
        report = into_folder.restore(wish, built.store, built.folder / "cache")
        (said,) = report.not_set
        assert said.startswith("files that were there already keep an owner or mode")
        assert said.endswith(": bin/su, etc/shadow, srv/shared/0 and 3 more")
        for each, facts in before.items():
            now = (target / each).stat()
            assert (now.st_uid, now.st_gid, now.st_mode) == (facts.st_uid, facts.st_gid, facts.st_mode)


@needs_root
@pytest.mark.slow
@in_each_format
def test_a_folder_of_this_host_comes_back_from_the_backups_of_the_engine_as_it_was(format: str, home: Path) -> None:
    """With names that a disk may take for one, and after runs that took over what had not changed."""
    source, repository = home / "source", RepositoryHere(format, home)
    write_files(source, Readme="1", README="2", a="a", program="program")
    (source / "d").mkdir()
    os.chown(source / "d", ANN, BOB)
    (source / "d").chmod(0o1777)
    for name in ("d/too", "0"):
        os.link(source / "a", source / name)
    (source / "link").symlink_to("a")
    os.chown(source / "program", ANN, BOB)
    (source / "program").chmod(0o6755)
    os.chown(source / "link", BOB, ANN, follow_symlinks=False)
    set_attribute(source / "program", "user.note", b"of ann")
    for _ in range(3):  # what has just been written is doubtful in the first one
        assert repository.back_up(local_folder(source)).error == ""
    before = picture(source)
    (source / "a").write_text("later")
    for point in repository.points()[1:]:
        report = repository.restored(home / point, point)
        assert (report.failed, report.not_set, report.missing) == ([], [], [])
        assert picture(home / point) == before
        assert owners(home / point) == owners(source)
        assert attributes(home / point) == attributes(source)
        assert (home / point / "a").stat().st_nlink == 3


@needs_root
@pytest.mark.parametrize("doubtful", [False, True])
def test_a_program_that_changed_while_it_was_copied_does_not_run_as_root(
    built: Built, home: Path, *, doubtful: bool
) -> None:
    """Who owns its folder may have put another one in its place after it was listed."""
    built.back_up()
    entries = [each._replace(doubtful=doubtful and each.kind == "file") for each in built.last.values()]
    if doubtful:
        capable = {CAPABILITY: b64encode(NET_BIND).decode()}
        entries = [each._replace(attributes=capable) if each.path == "bin/su" else each for each in entries]
    built.point("20261121T060000Z", entries)

    report = restore(built, "20261121T060000Z", home / "to")

    assert stat.S_IMODE((home / "to/bin/su").stat().st_mode) == (0o755 if doubtful else 0o4755)
    lacking = [f"{each} were not set, since it changed while it was copied: bin/su" for each in RIGHTS]
    assert report.not_set == (lacking if doubtful else [])


@needs_root
def test_an_owner_is_whom_the_name_means_here(built: Built, home: Path) -> None:
    header = Header("nas", "local", "nightly", "rclone", "1", "", "", users={"4711": "daemon"}, groups={"4712": "bin"})
    known = Owners(header)
    entry = Entry("a", uid=ANN, gid=BOB)
    assert known.of(entry) == (1, 2), "as Debian has them"
    assert known.of(entry._replace(uid=BOB, gid=ANN)) == (BOB, ANN), "no name is known"
    assert Owners(replace(header, users={"4711": "no such\0user"})).of(entry) == (ANN, 2)
    assert known.of(Entry("a")) is None


@needs_root
def test_another_account_says_what_it_could_not_set_once_for_each_kind(built: Built, home: Path) -> None:
    for number in range(9):
        built.write(f"many/{number}", "x")
    set_attribute(built.source / "many/0", "user.note", b"of ann")
    set_attribute(built.source / "bin/su", CAPABILITY, NET_BIND)
    point = built.back_up()
    target = home / "to"
    target.mkdir()
    os.chown(target, WORKER, WORKER)

    for each in (built.folder, *built.folder.rglob("*")):
        os.chown(each, WORKER, WORKER, follow_symlinks=False)

    wish, store = Wish(ASSIGNMENT, point, target), WithoutPrograms(built.location, Event())
    found = as_another(lambda: into_folder.restore(wish, store, built.folder / "cache").not_set)

    assert found == [
        "capabilities were not set, since owners were not: bin/su",
        "owners and groups were not set, which only root can: bin/su, etc/shadow, many/0 and 19 more",
        "setuid and setgid were not set, since owners were not: bin/su, srv/shared/c, srv/shared",
    ]
    assert os.getxattr(target / "many/0", "user.note") == b"of ann"
    assert (target / "srv/shared/a").samefile(target / "srv/shared/c/d")


def test_hard_links_come_in_any_batch_and_after_a_restore_that_was_killed(
    built: Built, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(into_folder, "BATCH_FILES", 1)
    point, put = built.back_up(), list[str]()
    file = placing.FilePlacement.file

    def killed_after_two(self: placing.FilePlacement, entry: Entry, *, is_last: bool) -> bool:
        if len(put) == 2:
            raise KeyboardInterrupt
        put.append(entry.path)
        return file(self, entry, is_last=is_last)

    monkeypatch.setattr(placing.FilePlacement, "file", killed_after_two)
    with pytest.raises(KeyboardInterrupt):
        restore(built, point, home / "to", "srv")
    monkeypatch.setattr(placing.FilePlacement, "file", file)
    report = restore(built, point, home / "to", "srv")

    assert (report.present, report.files, report.failed) == (2, 3, [])
    names = [(home / "to/srv/shared" / each).stat() for each in ("a", "b", "c/d", "0")]
    assert (len({each.st_ino for each in names}), names[0].st_nlink) == (1, 4)
    assert sorted(each.name for each in (home / "to").iterdir()) == ["srv"]
    asked = list[int]()
    monkeypatch.setattr(targets, "check_room", lambda path, size: asked.append(size))
    restore(built, point, home / "one", "srv/shared/c/d")
    assert (home / "one/srv/shared/c/d").read_text() == "a"
    for paths in (["srv/shared"], [f"srv/shared/{each}" for each in ("a", "b", "c/d", "0")], ["srv/shared/a"]):
        restore(built, point, home / f"{len(asked)}", *paths)
    assert asked == [1, 1, 1, 1], "a file needs room once, whatever names it has"


def test_files_that_share_a_place_and_are_no_hard_links_are_files_of_their_own(built: Built, home: Path) -> None:
    built.back_up()
    built.point("20261121T060000Z", [each._replace(linked="") for each in built.last.values()])

    assert restore(built, "20261121T060000Z", home / "to").failed == []

    assert picture(home / "to") == picture(built.source)
    assert len({(home / "to/srv/shared" / each).stat().st_ino for each in ("a", "b", "c/d", "0")}) == 4


def test_what_a_manifest_says_of_attributes_is_not_believed_to_be_sound(built: Built, home: Path) -> None:
    built.back_up()
    odd = {"user.ok": "b2s=", "user.bad": "?", "no such thing": "b2s=", "user.nul\0": "b2s="}
    entry = built.last["etc/shadow"]._replace(attributes=odd, uid=2**40, gid=-5)
    others = [each for each in built.last.values() if each.path != entry.path]
    point = layout.name_of(layout.instant_of("20261121T060000Z"))
    built.point(point, [entry, *others])
    assert any(each.attributes == odd for each in manifests.read(built.folder / point))

    report = restore(built, point, home / "to", "etc")

    assert (report.failed, (home / "to/etc/shadow").read_text()) == ([], "x")
    assert len([each for each in report.not_set if each.startswith("extended attribute")]) == 3
