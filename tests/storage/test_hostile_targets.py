"""Targets whose owner changes them during a restore: nothing is written elsewhere, whoever the worker is."""

import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

import pytest

from storage.folders.staging import title_of
from storage.points.store import StorageFailed
from storage.restoring import into_folder
from storage.restoring.base import RestoreRefused, Wish
from tests.storage import other_accounts
from tests.storage.building import ASSIGNMENT, Built, WithoutPrograms, picture
from tests.storage.other_accounts import OWNER, WORKER
from tests.storage.restored_points import restore

home = other_accounts.home

SWAPPING = """
import os, sys
target, victim = sys.argv[1:]
os.setgid(65534)
os.setuid(65534)
print(flush=True)
def swap(path):
    try:
        os.rename(path, path + "~")
        os.symlink(victim, path)
        os.unlink(path)
    except OSError:
        pass
    try:
        os.rename(path + "~", path)
    except OSError:
        pass
def names_in(folder):
    try:
        return [each for each in os.listdir(folder) if not each.endswith("~")]
    except OSError:
        return []
while True:
    if any(each.startswith(".restore-") for each in names_in(target)):
        swap(target)
    for folder in (target, target + "/a", target + "/a/b"):
        for name in names_in(folder):
            swap(folder + "/" + name)
"""


@pytest.fixture
def built(home: Path) -> Built:
    built = Built(home / "built")
    for number in range(40):
        built.write(f"a/b/c{number % 4}/{number}", "x" * number)
    (built.source / "a/link").symlink_to("b")
    return built


@pytest.fixture
def victim(home: Path) -> Path:
    """A folder of the worker, of which nothing is to change."""
    victim = home / "cron.d"
    (victim / "b").mkdir(parents=True)
    (victim / "job").write_text("of the worker")
    return victim


def test_a_link_is_no_target_and_no_part_of_its_path(built: Built, victim: Path, home: Path) -> None:
    point, before = built.back_up(), picture(victim)
    (home / "link").symlink_to(victim)
    for target in (home / "link", home / "link/b", home / "link/b/new"):
        with pytest.raises(RestoreRefused, match="link is a link, which no restore follows"):
            restore(built, point, target, overwrite=True)
    assert picture(victim) == before


def test_a_link_below_the_target_is_neither_followed_nor_read(built: Built, victim: Path, home: Path) -> None:
    """Also where what it leads to has the very files of the point."""
    point = built.back_up()
    shutil.copytree(built.source / "a", victim / "a", symlinks=True)
    before = picture(victim)
    (home / "to").mkdir()
    (home / "to/a").symlink_to(victim / "a")
    report = restore(built, point, home / "to", overwrite=True)
    assert (report.present, report.failed) == (0, [])
    assert picture(home / "to") == picture(built.source)
    assert picture(victim) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
def test_a_staging_folder_that_another_one_prepared_is_not_taken(built: Built, victim: Path, home: Path) -> None:
    point, before, target = built.back_up(), picture(victim), home / "to"
    target.mkdir()
    title = title_of(ASSIGNMENT, point)
    (target / f".restore-{point}.unfinished").symlink_to(victim)
    (target / f"{title}01234567.unfinished").symlink_to(victim)
    theirs = target / f"{title}fedcba98.unfinished"
    theirs.mkdir(mode=0o700)
    (theirs / "files").symlink_to(victim)
    os.chown(theirs, OWNER, OWNER)
    of_root = target / f"{title}eeeeeeee.unfinished"
    of_root.mkdir(mode=0o700)
    (of_root / "key").write_text("of root, and named by another one")
    report = restore(built, point, target, overwrite=True)
    assert (report.files, report.failed) == (41, [])
    assert picture(victim) == before
    assert (of_root / "key").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
def test_what_root_restores_into_a_folder_belongs_to_its_owner(built: Built, home: Path) -> None:
    point, target = built.back_up(), home / "of ann"
    target.mkdir()
    os.chown(target, OWNER, OWNER)
    assert restore(built, point, target / "new/below").failed == []
    found = [target / "new", *(target / "new").rglob("*")]
    assert len(found) == 1 + 1 + 6 + 41
    assert {(each.lstat().st_uid, each.lstat().st_gid) for each in found} == {(OWNER, OWNER)}
    assert picture(target / "new/below") == picture(built.source)


@contextmanager
def swapping(target: Path, victim: Path) -> Iterator[None]:
    """The owner of the target puts links to `victim` in the place of all that is there, again and again."""
    command = (sys.executable, "-c", SWAPPING, str(target), str(victim))
    with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        owner.stdout.readline()
        try:
            yield
        finally:
            owner.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="other accounts are needed")
@pytest.mark.parametrize("worker", [0, WORKER], ids=["root", "another account"])
def test_nothing_gets_elsewhere_while_links_and_folders_are_swapped(
    worker: int, built: Built, victim: Path, home: Path
) -> None:
    built.owners = True
    for number in range(20):
        os.link(built.source / f"a/b/c{number % 4}/{number}", built.source / f"a/{number}")
    point, shared = built.back_up(), home / "shared"
    store = WithoutPrograms(built.location, Event()) if worker else built.store
    shared.mkdir()
    for each in (home / "built", *(home / "built").rglob("*"), victim, *victim.rglob("*")):
        os.chown(each, worker, worker, follow_symlinks=False)
    before, target = picture(victim), shared / "to"
    for each in (shared, target):
        each.mkdir(exist_ok=True)
        os.chown(each, OWNER, OWNER)
        each.chmod(0o777)
    with swapping(target, victim):
        for _ in range(6):
            child = os.fork()
            if not child:
                try:
                    os.setgroups([])
                    os.setgid(worker)
                    os.setuid(worker)
                    with suppress(RestoreRefused, StorageFailed, OSError):
                        wish = Wish(ASSIGNMENT, point, target, overwrite=True)
                        into_folder.restore(wish, store, built.folder / "cache")
                    os._exit(0)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
    assert picture(victim) == before


@pytest.mark.slow
def test_pipes_and_devices_in_a_target_or_a_repository_are_neither_read_nor_waited_for(
    built: Built, victim: Path, home: Path
) -> None:
    """A pipe has no end, and a link may lead to /dev/zero."""
    point, target = built.back_up(), home / "to"
    (target / "a/b/c0").mkdir(parents=True)
    os.mkfifo(target / "a/b/c0/0")
    (target / "a/b/c0/4").symlink_to("/dev/zero")
    os.mkfifo(target / "a/link")
    pipe, link = built.stored("a/b/c0/8"), built.stored("a/b/c1/1")
    pipe.unlink()
    os.mkfifo(pipe)
    link.unlink()
    link.symlink_to("/dev/zero")
    report = restore(built, point, target, overwrite=True)
    assert sorted(each.partition(":")[0] for each in report.failed) == ["a/b/c0/8", "a/b/c1/1"]
    assert ((target / "a/b/c0/0").read_text(), (target / "a/b/c0/4").read_text()) == ("", "x" * 4)
    assert (target / "a/link").is_symlink()
