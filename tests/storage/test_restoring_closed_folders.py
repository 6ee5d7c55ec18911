"""A restore by an account that is not root, into folders that this account may not enter or change: its own ones are
opened to it for the time of the restore, and what is below those of others is named."""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engines.restores import drilling
from engines.restores.scratch import Scratch
from storage.restoring import into_folder, placing
from storage.restoring.base import Report, RestoreRefused, Wish
from tests.storage import other_accounts
from tests.storage.building import ASSIGNMENT, Built, WithoutPrograms, picture
from tests.storage.other_accounts import OWNER, WORKER, as_another, needs_root

home = other_accounts.home

__all__ = ["home"]

pytestmark = needs_root
MODES = pytest.mark.parametrize(
    ("mode", "overwrite"),
    [(0o444, False), (0o000, False), (0o000, True), (0o111, False), (0o555, False), (0o555, True)],
    ids=lambda value: f"{value:04o}" if value is not True and value is not False else "over" * value,
)
ENTERED = (0o111, 0o555)


@pytest.fixture
def built(home: Path) -> Built:
    built = Built(home / "built")
    for path in ("a", "closed/x", "closed/sub/y", "open/z"):
        built.write(path, path)
    os.link(built.source / "closed/x", built.source / "closed/x2")
    (built.source / "closed/link").symlink_to("x")
    (built.source / "closed/empty").mkdir()
    return built


def closed(built: Built, mode: int) -> str:
    """A point whose folders and files have such modes, in a repository of the other account."""
    for each in ("closed/sub", "closed/empty", "closed"):
        (built.source / each).chmod(mode)
    (built.source / "closed/x").chmod(mode & 0o444)
    point = built.back_up()
    for path in (built.folder, *built.folder.rglob("*")):
        os.chown(path, WORKER, WORKER, follow_symlinks=False)
    built.stored("closed/x").chmod(0o600)
    return point


def restore(built: Built, point: str, target: Path, *paths: str, **wish: Any) -> Report:
    """Restore as the other account."""
    target.mkdir(exist_ok=True)
    os.chown(target, WORKER, WORKER)

    def work() -> list[str]:
        store = WithoutPrograms(built.location, Event())
        try:
            found = into_folder.restore(Wish(ASSIGNMENT, point, target, paths, **wish), store, built.folder / "cache")
        except RestoreRefused as error:
            return [json.dumps(str(error))]
        return [json.dumps(asdict(found))]

    found = json.loads(as_another(work)[0])
    if isinstance(found, str):
        raise RestoreRefused(found)
    return Report(**found)


@MODES
def test_one_of_its_own_is_restored_twice(built: Built, home: Path, mode: int, *, overwrite: bool) -> None:
    point, target = closed(built, mode), home / "to"
    for present in (0, 6):
        report = restore(built, point, target, overwrite=overwrite)
        assert (report.failed, report.not_set, report.present) == ([], [], present)
        assert picture(target) == picture(built.source)


@MODES
def test_one_of_its_own_is_opened_for_what_is_missing_or_differs(
    built: Built, home: Path, mode: int, monkeypatch: pytest.MonkeyPatch, *, overwrite: bool
) -> None:
    point, target = closed(built, mode), home / "to"
    with monkeypatch.context() as patched:
        finish = placing.FilePlacement.finish_folders

        def killed(self: placing.FilePlacement) -> None:
            finish(self)
            os._exit(0)

        patched.setattr(placing.FilePlacement, "finish_folders", killed)
        with pytest.raises(IndexError):
            restore(built, point, target)
    for each in ("closed/x2", "closed/sub/y", "closed/link"):
        (target / each).unlink()
    (target / "closed/empty").rmdir()
    if overwrite:
        (target / "closed/x").write_text("another")

    report = restore(built, point, target, overwrite=overwrite, among=not overwrite)

    assert (report.failed, report.not_set, report.replaced) == ([], [], int(overwrite))
    assert picture(target) == picture(built.source)


@MODES
def test_what_is_below_one_of_another_account_is_named_and_all_else_comes_back(
    built: Built, home: Path, mode: int, *, overwrite: bool
) -> None:
    point, target = closed(built, 0o755), home / "to"
    (target / "closed/sub").mkdir(parents=True)
    (target / "closed/x").write_text("closed/x")
    shutil.copystat(built.source / "closed/x", target / "closed/x")
    for each in ("closed/sub", "closed/x", "closed"):
        os.chown(target / each, OWNER, OWNER)
    (target / "closed").chmod(mode)
    before = picture(target)

    report = restore(built, point, target, overwrite=overwrite, among=True)

    below = ["closed/empty", "closed/link", "closed/sub", "closed/sub/y", "closed/x", "closed/x2"]
    lost = [each for each in below if mode not in ENTERED or each not in ("closed/x", "closed/sub")]
    closed_to_it = dict.fromkeys(lost, "closed") | ({"closed/sub/y": "closed/sub"} if mode in ENTERED else {})
    assert sorted(report.failed) == sorted(
        f"{path}: permission denied: this account may not enter or change {target / folder}; let it, or restore "
        "into another folder"
        for path, folder in closed_to_it.items()
    )
    assert report.failed_files == len(lost)
    assert picture(target) == before | {each: picture(built.source)[each] for each in ("a", "open", "open/z")}


def test_a_folder_above_what_is_restored_and_one_that_a_refusal_or_a_dry_run_has_looked_into_stay_closed(
    built: Built, home: Path
) -> None:
    point, target = closed(built, 0o555), home / "to"
    restore(built, point, target)
    for each in ("sub", "empty", ""):
        (target / "closed" / each).chmod(0)
    before = picture(target)
    restore(built, point, target, dry_run=True)
    assert picture(target) == before
    (target / "closed/sub/y").write_text("another")
    before = picture(target)
    with pytest.raises(RestoreRefused, match="1 file that differs"):
        restore(built, point, target)
    assert picture(target) == before
    restore(built, point, target, "closed/sub/y", overwrite=True)
    assert (target / "closed/sub/y").read_text() == "closed/sub/y"
    assert [(target / each).stat().st_mode & 0o777 for each in ("closed", "closed/sub")] == [0, 0]


def test_one_of_all_accounts_that_keeps_files_of_others_is_as_one_that_may_not_be_changed(
    built: Built, home: Path
) -> None:
    """A folder such as /tmp lets no one replace a file of another account."""
    point, target = closed(built, 0o755), home / "to"
    (target / "closed").mkdir(parents=True)
    (target / "closed").chmod(0o1777)
    (target / "closed/x").write_text("another")
    (target / "closed/link").symlink_to("another")
    for each in ("closed/x", "closed/link", "closed"):
        os.chown(target / each, OWNER, OWNER, follow_symlinks=False)

    report = restore(built, point, target, overwrite=True)

    assert [each.partition(": this")[0] for each in report.failed] == [
        f"{each}: permission denied" for each in ("closed/x", "closed/link")
    ]
    assert (report.files, report.replaced, report.collisions) == (4, 0, [])


def test_a_target_that_cannot_be_listed_is_refused_in_words(built: Built, home: Path) -> None:
    point, target = closed(built, 0o755), home / "to"
    target.mkdir(mode=0o333)
    with pytest.raises(RestoreRefused, match="cannot be listed"):
        restore(built, point, target)


@pytest.mark.parametrize("mode", [0o444, 0o000])
def test_a_drill_reads_what_a_point_has_in_one(built: Built, home: Path, mode: int) -> None:
    closed(built, mode)
    (scratch := home / "drills").mkdir()
    os.chown(scratch, WORKER, WORKER)

    def work() -> list[str]:
        store = WithoutPrograms(built.location, Event())
        done = drilling.drill(store, ASSIGNMENT, Scratch(folder=str(scratch), reserve=0.0))
        return [json.dumps([done.files, done.error, os.listdir(scratch)])]

    assert json.loads(as_another(work)[0]) == [6, "", []]
