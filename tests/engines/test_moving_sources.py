"""A folder of this host in which names change while it is backed up: each name that was seen has a content that was
its own, or is named.
"""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pytest

from engines.base import EngineResult, Verdict
from engines.rclone import bringing, listing
from engines.rclone.local import Listed, LocalFolder
from storage.places.location import of_directory
from storage.points.entries import Entry
from storage.points.store import Store
from storage.restoring.base import Wish
from storage.restoring.into_folder import restore
from tests.engines.peers import back_up, held, local_folder, point, run, task_for, write_files
from tests.storage.extended_attributes import set_attribute
from tests.storage.repositories import encrypted

FILES = {"a": "a", "sub/x": "x", "sub/y": "y", "sub/deep/z": "z"}
OLD = 1_700_000_000


def moved(top: Path) -> None:
    (top / "sub").rename(top / "new")


def removed(top: Path) -> None:
    (top / "sub").rename(top.parent / "elsewhere")


def renamed(top: Path) -> None:
    for each in ("x", "y"):
        (top / "sub" / each).rename(top / "sub" / f".{each}")


def linked(top: Path) -> None:
    write_files(top.parent / "other", x="not x", y="not y", **{"deep/z": "not z"})
    removed(top)
    (top / "sub").symlink_to(top.parent / "other")


def linked_below(top: Path) -> None:
    write_files(top.parent / "other", z="not z")
    (top / "sub/deep").rename(top.parent / "elsewhere")
    (top / "sub/deep").symlink_to(top.parent / "other")


@pytest.mark.parametrize(
    ("then", "once"),
    [
        (moved, "sub"), (removed, "sub"), (moved, "sub/"), (renamed, "sub/"),
        (linked, "sub"), (linked, "sub/"), (linked_below, "sub/deep"),
    ],
    ids=[
        "moved before its turn", "removed", "moved in its turn", "its files renamed",
        "a link before its turn", "a link above another one", "a link below it",
    ],
)  # fmt: skip
def test_files_that_are_moved_while_their_source_is_listed_stay_in_the_point(
    then: Callable[[Path], None], once: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, copy = write_files(tmp_path / "files", **FILES), tmp_path / "copy"
    first = back_up(local_folder(files), copy)
    assert first.verdict is Verdict.SUCCEEDED, first

    class Moving(LocalFolder):
        def __iter__(self) -> Iterator[Listed]:
            done = False
            for each in super().__iter__():
                yield each
                if not done and each[0].startswith(once):
                    done = True
                    then(files)

    with monkeypatch.context() as context:
        context.setattr(listing, "LocalFolder", Moving)
        second = back_up(local_folder(files), copy, started_at=datetime.now(UTC))
    found = held(copy)
    assert FILES.items() <= found.items(), second
    lacks = {path for path in FILES if point(copy, second.snapshot)[path].as_of}
    assert (second.verdict, len(lacks) > 0) == (Verdict.WARNINGS, True), second
    third = back_up(local_folder(files), copy, started_at=datetime.now(UTC) + timedelta(hours=1))
    assert third.verdict is Verdict.SUCCEEDED, third
    there = {str(each.relative_to(files)): each.read_text() for each in files.rglob("*") if each.is_file()}
    assert held(copy) == there


@pytest.mark.parametrize("name", ["file", "folder", "link"])
@pytest.mark.parametrize("swapped", ["box", "box/inner"])
def test_nothing_of_another_folder_is_listed_once_a_link_leads_there(name: str, swapped: str, tmp_path: Path) -> None:
    inner = os.path.relpath("box/inner", swapped)
    for folder, value in (tmp_path / "files/box/inner", b"ours"), (tmp_path / "victim" / inner, b"secret"):
        write_files(folder, **{"file": "x", "folder/x": "x"})
        (folder / "link").symlink_to(value.decode())
        for each in ("file", "folder"):
            set_attribute(folder / each, "user.note", value)

    def swap(path: str) -> bool:
        if path == f"box/inner/{name}":
            (tmp_path / "files" / swapped).rename(tmp_path / "away")
            (tmp_path / "files" / swapped).symlink_to(tmp_path / "victim")
        return False

    def ignore(path: str, why: str) -> None:
        pass

    walk = LocalFolder(tmp_path / "files", swap, ignore, ignore, ignore, lambda: None, set())
    found = {path: Entry(*fields) for path, _, fields, _ in walk}[f"box/inner/{name}"]
    assert (found.target, found.attributes) == (("ours", None) if name == "link" else ("", {"user.note": "b3Vycw=="}))


def replaced(top: Path) -> None:
    (top / "other").write_text("of another file")
    os.replace(top / "other", top / "one")


def replaced_alike(top: Path) -> None:
    (top / "other").write_text("sheep")
    os.utime(top / "other", (OLD, OLD))
    os.replace(top / "other", top / "one")


def written(top: Path) -> None:
    (top / "one").write_text("of both names")


@pytest.mark.parametrize(
    ("then", "is_encrypted"),
    [
        (replaced, False),
        (replaced_alike, False),
        (written, False),
        pytest.param(replaced, True, marks=pytest.mark.slow),
        (replaced_alike, True),
        pytest.param(written, True, marks=pytest.mark.slow),
    ],
)
def test_another_name_of_a_file_never_gets_the_content_of_one_that_replaced_the_first(
    then: Callable[[Path], object], is_encrypted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_files(tmp_path / "files", one="whole", a="a", b="b")
    os.utime(files / "one", (OLD, OLD))
    (files / "two").hardlink_to(files / "one")
    (tmp_path / "repository").mkdir()
    place = of_directory(tmp_path / "repository")
    place = encrypted(place) if is_encrypted else place
    bring = bringing.bring

    def replacing(*arguments: object) -> object:
        then(files)
        return bring(*arguments)  # type: ignore[arg-type]

    def backed_up(hours: int) -> tuple[EngineResult, dict[str, str]]:
        at = datetime.now(UTC) + timedelta(hours=hours)
        result = run(task_for(local_folder(files), tmp_path / "copy", location=place, started_at=at))
        assert result.snapshot, result
        target = tmp_path / f"restored {hours}"
        report = restore(Wish("copy", result.snapshot, target), Store(place, Event()), tmp_path / "cache")
        assert report.failed == []
        return result, {each.name: each.read_text() for each in target.iterdir()}

    with monkeypatch.context() as context:
        context.setattr(bringing, "bring", replacing)
        result, found = backed_up(1)
    now = {each.name: each.read_text() for each in files.iterdir()}
    assert found.get("two") in (now["two"], None), result
    assert ("two" in found) == (result.verdict is Verdict.SUCCEEDED), result
    assert backed_up(2)[1] == now
