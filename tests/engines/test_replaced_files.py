"""A disk that keeps two names as one: a file that another one has overwritten is in no point with that one's content,
and no good file goes before there is another copy.

The disk, the looks at it and the deletions are real; the copies are scripted, since they end in one certain way.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import pytest

from engines.base import Verdict
from engines.rclone import bringing, transfer
from engines.rclone.bringing import Problems
from engines.rclone.comparing import Item, PathDecision, is_wanted
from engines.rclone.run import RcloneRun
from engines.rclone.transfer import Transfer
from storage.points.entries import Entry
from storage.points.runs import BegunRun
from tests.engines.peers import back_up, held, local_folder, task_for, write_files

RUN = "20261128T100000Z"
TIME, LISTED = 1_700_000_000, "2023-11-14T22:13:20Z"
GONE = "object not found"
UNREADABLE = "failed to open source object: open /a:b: permission denied"


class Brought(NamedTuple):
    """`held`: path → content in the point, None if it has none; `doubtful`: paths that the next run brings again;
    `again`: paths that were copied once more, under other names.
    """

    held: dict[str, str | None]
    doubtful: list[str]
    again: list[str]


Bring = Callable[..., Brought]


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bring:
    """Bring files of one size and time, whose contents are their names."""
    files = tmp_path / "copy/files"

    def put(place: str, text: str) -> None:
        (files / place).parent.mkdir(parents=True, exist_ok=True)
        (files / place).write_text(text.ljust(9))
        os.utime(files / place, (TIME, TIME))

    def brought(
        paths: Iterable[str], landed: Mapping[str, str], tries: Iterable[Mapping[str, str]], gone: Collection[str] = ()
    ) -> Brought:
        """`landed`: name on the disk → whose content it has; `tries`: the errors of each; `gone`: not copied again."""
        errors, again = iter(tries), list[str]()

        def first(*given: object) -> Problems:
            for name, text in landed.items():
                put(f"{RUN}/{name}", text)
            return Problems(dict(next(errors)))

        def under_other_names(run: object, pairs: list[tuple[str, str]], **how: object) -> Problems:
            for path, place in pairs:
                again.append(path)
                if path not in gone:
                    put(place, path)
            return Problems({path: GONE for path, _ in pairs if path in gone})

        monkeypatch.setattr(bringing, "bring", first)
        monkeypatch.setattr(transfer, "bring_renamed", under_other_names)
        task = task_for(local_folder(tmp_path), tmp_path / "copy")
        held, doubtful = dict[str, str | None](), list[str]()
        with ExitStack() as opened:
            run: Any = RcloneRun(task, Event(), way={})
            moved = Transfer(run, BegunRun(RUN, None), opened)
            moved.plan(Item(path, PathDecision.WANTED, Entry(path, size=9, modified=LISTED)) for path in sorted(paths))
            moved.bring()
            for item, found in moved.brought:
                assert is_wanted(item)
                held[item.path] = (files / item.entry.place).read_text().rstrip() if found else None
                doubtful += [item.path] if item.entry.doubtful else []
        return Brought(held, doubtful, sorted(again))

    return brought


OVERWRITTEN = {"a_b": "a:b", "other": "other"}
"""File → the file that overwrote it, on a disk that puts `_` for `:`. `other` may have been overwritten, too."""


@pytest.mark.parametrize(
    ("tries", "gone"),
    [
        ([{}], []),
        ([{"a:b": "connection reset by peer"}, {}], []),
        ([{}], ["a:b"]),
        ([{"a:b": "connection reset by peer"}, {}], ["a:b"]),
        ([{"a:b": "connection reset by peer"}, {"a:b": "connection reset by peer"}], []),
        ([{"other": "connection reset by peer"}, {}], ["a:b"]),
        ([{"a:b": UNREADABLE.replace("permission denied", "timeout")}, {}], ["a:b"]),
    ],
    ids=["plain", "an error at first", "gone", "both", "errors at last", "an error of another", "opened at last"],
)
def test_a_file_that_another_one_has_overwritten_is_brought_again_whatever_came_of_that_one(
    tries: list[dict[str, str]], gone: list[str], bring: Bring
) -> None:
    found = bring(["a:b", "a_b", "other"], OVERWRITTEN, tries, gone)
    assert (found.held["a_b"], found.held["other"]) == ("a_b", "other")
    assert found.held["a:b"] in ("a:b", None)
    assert (found.held["a:b"] is None) == (bool(gone) or tries[-1] != {})


def test_a_file_that_was_never_stored_has_overwritten_none(bring: Bring) -> None:
    landed = {"one": "one", "two": "two"}
    for why, came in (("invalid argument", "a:b"), (UNREADABLE, None)):
        found = bring(["a:b", "one", "two"], landed, [{"a:b": why}] * 2, ["one", "two"])
        assert found.held == {"a:b": came, "one": "one", "two": "two"}
        assert (found.doubtful, set(found.again) - {"a:b"}) == ([], set())


def test_a_file_that_may_be_overwritten_and_cannot_be_brought_again_stays_as_doubtful(bring: Bring) -> None:
    found = bring(["a:b", "a_b", "other"], OVERWRITTEN, [{}], ["a:b", "other"])
    assert found == Brought({"a:b": None, "a_b": "a_b", "other": "other"}, ["other"], ["a:b", "a_b", "other"])


def test_a_missing_file_that_came_under_another_name_has_overwritten_none(bring: Bring) -> None:
    found = bring(["a:b", "other"], {"a_b": "a:b", "other": "other"}, [{}], [])
    assert found == Brought({"a:b": "a:b", "other": "other"}, [], ["a:b"])


def test_a_missing_file_whose_name_each_repository_keeps_has_overwritten_none(bring: Bring) -> None:
    assert bring(["a.b", "é", "other"], {"other": "other", "é": "é"}, [{}], ["a.b"]).again == ["a.b"]


def test_a_file_that_was_not_asked_for_explains_one_missing_file(bring: Bring) -> None:
    found = bring(["Case", "A:B", "A_B"], {"CASE": "Case", "A_B": "A:B"}, [{}])
    assert found.held == {each: each for each in ("Case", "A:B", "A_B")}


@pytest.mark.parametrize("names", [("a:b", "a_b"), ("sub?/x", "sub_/x")], ids=["of a file", "of a folder"])
def test_what_a_killed_run_has_left_is_not_taken_over_with_the_content_of_a_file_that_overwrote_it(
    names: tuple[str, str], tmp_path: Path
) -> None:
    overwriting, overwritten = names
    texts = {overwriting: "one", overwritten: "two", "whole": "more"}
    files, copy = write_files(tmp_path / "files", **texts), tmp_path / "copy"
    for each in texts:
        os.utime(files / each, (TIME, TIME))
    name = back_up(local_folder(files), copy).snapshot
    (copy / f"manifests/{name}.jsonl.gz").rename(copy / f"manifests/{name}.unfinished")
    (copy / f"manifests/{name}.flushed").touch()
    os.replace(copy / f"files/{name}/{overwriting}", copy / f"files/{name}/{overwritten}")
    result = back_up(local_folder(files), copy)
    assert (result.verdict, result.files, result.read) == (Verdict.SUCCEEDED, 3, len("onetwo"))
    assert held(copy) == texts
