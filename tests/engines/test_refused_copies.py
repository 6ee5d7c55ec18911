"""A copy whose server refuses one file, not the others."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from storage.places import remotes
from storage.places.location import Location, of_directory
from storage.points import checking, copying, runs
from storage.points.copies import CopyResult
from storage.points.store import StorageFailed, Store
from storage.restoring.base import Wish
from storage.restoring.into_folder import restore
from tests.append_only import append_only
from tests.engines.peers import back_up, local_folder, tree, write_files

pytestmark = pytest.mark.slow
FOLDER = "nas-7/nightly"
LONG = "/".join(["folder" * 6] * 6)
TOO_LONG = b"<Error><Code>KeyTooLongError</Code><Message>Your key is too long</Message></Error>"
TREE = {"short": "short", f"{LONG}/a": "long", "other": "other", "more": "more"}
Refusal = Callable[[str, str, Any], tuple[int, bytes] | None]


def refusing(status: int, answer: bytes, *commands: str) -> Refusal:
    """The refusal of all requests, or of these commands, for the file with the long path."""
    return lambda command, path, headers: (
        (status, answer) if path.endswith(f"{LONG}/a") and (not commands or command in commands) else None
    )


def first_repository(folder: Path) -> Store:
    """One of a single point."""
    store = Store(of_directory(folder / "first"), Event())
    files = local_folder(write_files(folder / "source", **TREE))
    assert back_up(files, folder, location=store.location, folder=FOLDER).snapshot
    return store


def copy(first: Store, place: Location, **facts: Any) -> CopyResult:
    there = remotes.beside(place)
    return copying.copy(replace(first, beside=there), Store(there, Event()), FOLDER, **facts)


@pytest.mark.parametrize(
    ("kind", "refusal"),
    [
        ("webdav-other", refusing(414, b"Request-URI Too Large")),
        ("s3", refusing(400, TOO_LONG)),
        ("webdav-other", refusing(403, b"Forbidden", "PUT")),
        ("webdav-other", refusing(423, b"Locked", "PUT")),
    ],
    ids=["too long", "too long for a bucket", "denied", "locked"],
)
def test_names_the_file_and_brings_all_others_and_that_one_once_it_is_taken(
    kind: str, refusal: Refusal, tmp_path: Path
) -> None:
    first, is_refusing = first_repository(tmp_path), True

    def answer(*request: Any) -> tuple[int, bytes] | None:
        return refusal(*request) if is_refusing else None

    with append_only(kind, tmp_path / "served", [], answer) as (settings, secrets, path):
        place = remotes.location_of(path, settings, secrets, None)
        second = Store(place, Event())

        def restored() -> tuple[list[str], dict[str, str]]:
            report = restore(Wish(FOLDER, point, tmp_path / "restored"), second, tmp_path / "cache")
            return report.failed, tree(tmp_path / "restored")

        def damaged() -> list[checking.Damage]:
            return checking.check(second, FOLDER, part="", after="", total=0, share=1.0).damaged

        copied = copy(first, place)
        [point], [text] = copied.new, copied.wrong
        assert "/a' is not in the copy" in text, text
        [damage] = damaged()
        assert (damage.path, damage.why) == (f"{LONG}/a", checking.MISSING)
        failed, there = restored()
        assert ([each.partition(":")[0] for each in failed], there.keys()) == (
            [f"{LONG}/a"],
            TREE.keys() - {f"{LONG}/a"},
        )
        again = {"damaged": {point: [damage.place]}}
        [text] = copy(first, place, **again).wrong
        assert "/a' is not in the copy" in text, text
        is_refusing = False
        assert copy(first, place, **again).wrong == []
        assert (damaged(), restored()) == ([], ([], TREE))


@pytest.mark.parametrize(("status", "wanted"), [(403, "/files/"), (507, f"{LONG}/a")])
def test_fails_where_most_are_refused_or_the_server_is_full(status: int, wanted: str, tmp_path: Path) -> None:
    first = first_repository(tmp_path)

    def answer(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        return (status, b"no") if command == "PUT" and wanted in path else None

    with append_only("webdav-other", tmp_path / "served", [], answer) as (settings, secrets, path):
        place = remotes.location_of(path, settings, secrets, None)
        with pytest.raises(StorageFailed, match=r"more than half|Insufficient"):
            copy(first, place)
        assert runs.points(Store(place, Event()), FOLDER) == []
