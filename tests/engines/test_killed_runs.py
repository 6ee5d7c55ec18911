"""A worker that is killed while its rclone is at work has noted nothing of what that rclone reports afterwards: what it
leaves on a server counts once it was compared.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engines.base import Verdict
from storage.places import remotes
from storage.places.location import Location, of_directory
from storage.points import copying, manifests
from storage.points.store import Store
from tests.append_only import append_only
from tests.engines.peers import STARTED_AT, back_up, local_folder, run, task_for, write_files
from tests.engines.served import KEY

pytestmark = pytest.mark.slow
LATER = STARTED_AT + timedelta(days=1)
CONTENT, LAST, ENCRYPTED = "content", "last", 48
FILES = {"a": "a", "last": LAST, "last.": LAST}


@dataclass
class Killing:
    """An append-only server that alters the first file of the size of `CONTENT`, and kills `child` as one of the size
    of `LAST` comes after it.
    """

    served: Path
    alters: bool
    altered: list[Path] = field(default_factory=list)
    child: int = 0

    def __call__(self, command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        size = int(headers.get("Content-Length") or 0) if command == "PUT" and "/manifests/" not in path else 0
        if size in (len(CONTENT), len(CONTENT) + ENCRYPTED) and not self.altered:
            self.altered.append(there := self.served / path.strip("/"))
            if self.alters:
                write_files(there.parent, **{there.name: "x" * size})
                return 200, b""
        elif size in (len(LAST), len(LAST) + ENCRYPTED) and self.altered and self.child:
            os.kill(self.child, signal.SIGKILL)
            self.child = 0
            return 403, b"no"
        return None

    def kill(self, work: Callable[[], object]) -> None:
        """Begin work in another process, which is killed."""
        if not (child := os.fork()):
            work()
            os._exit(0)
        self.child = child
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


@contextmanager
def killing(kind: str, key: str | None, tmp_path: Path) -> Iterator[tuple[Killing, Location]]:
    found = Killing(tmp_path / "served", alters=kind == "s3")
    with append_only(kind, found.served, [], found) as (settings, secrets, path):
        yield found, remotes.location_of(path, settings, secrets, key)


def stored(location: Location, point: str, tmp_path: Path) -> dict[str, tuple[str, bool]]:
    """Path → SHA-256 of the stored file, and True if the last run has brought it."""
    store = Store(location, Event())
    assert store.manifest("copy", point, tmp_path / "manifest")
    places = {each.path: each.place for each in manifests.read(tmp_path / "manifest")}
    digests, problems = store.read("copy/files", list(places.values()))
    assert not problems
    return {path: (digests[place], place.startswith(point)) for path, place in places.items()}


@pytest.mark.parametrize(
    ("kind", "key", "name"),
    [
        ("s3", None, "comes"),
        ("s3", None, "comes."),
        ("s3", KEY, "comes"),
        ("webdav-other", None, "comes"),
        ("webdav-other", KEY, "comes"),
    ],
    ids=["a bucket", "under another name", "an encrypted bucket", "a share", "an encrypted share"],
)
def test_a_backup_takes_over_whole_files_alone(kind: str, key: str | None, name: str, tmp_path: Path) -> None:
    """A share has no digests, so nobody could notice there that a file was altered, and nothing is."""
    source = local_folder(write_files(tmp_path / "source", **FILES, **{name: CONTENT}))
    with killing(kind, key, tmp_path) as (server, location):
        task = task_for(source, tmp_path, location=location, folder="copy", options={"transfers": 1})
        server.kill(lambda: run(task))
        result = run(replace(task, started_at=LATER))
        assert result.verdict is Verdict.SUCCEEDED, result
        found = stored(location, result.snapshot, tmp_path)
        expected = stored(of_directory(tmp_path / "first"), back_up(source, tmp_path / "first/copy").snapshot, tmp_path)
    assert {path: digest for path, (digest, _) in found.items()} == {
        path: digest for path, (digest, _) in expected.items()
    }
    assert (found["a"][1], found[name][1]) == (False, server.alters), "whole files are taken over"


@pytest.mark.parametrize("key", [None, KEY], ids=["a bucket", "an encrypted bucket"])
def test_a_copy_takes_over_whole_files_alone(key: str | None, tmp_path: Path) -> None:
    source, first = local_folder(write_files(tmp_path / "source", **FILES, comes=CONTENT)), tmp_path / "first"
    point = back_up(source, first / "copy").snapshot
    with killing("s3", key, tmp_path) as (server, location):
        there, beside = Store(location, Event()), remotes.beside(location)
        ours = Store(of_directory(first), Event(), beside=beside)

        def copy() -> copying.CopyResult:
            return copying.copy(ours, replace(there, location=beside), "copy", options=("--transfers=1",))

        server.kill(copy)
        done = copy()
        assert (done.new, done.incomplete, done.wrong, done.files) == ([point], {}, [], 3)
        found, expected = (stored(each, point, tmp_path) for each in (location, ours.location))
    assert {path: digest for path, (digest, _) in found.items()} == {path: each for path, (each, _) in expected.items()}


@pytest.mark.parametrize("name", ["comes", "comes."])
@pytest.mark.parametrize(("kind", "kept"), [("s3", "altered"), ("webdav-other", "cut")])
def test_a_file_that_is_on_a_server_although_its_upload_failed_does_not_count_by_itself(
    kind: str, kept: str, name: str, tmp_path: Path
) -> None:
    there = list[Path]()

    def refusal(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        file = tmp_path / "served" / path.strip("/")
        if command != "PUT" or headers.get("Content-Length") != str(len(CONTENT)) or file not in (there or [file]):
            return None
        there.append(file)
        write_files(file.parent, **{file.name: kept})
        return 423, b"no"

    source = local_folder(write_files(tmp_path / "source", **FILES, **{name: CONTENT}))
    with append_only(kind, tmp_path / "served", [], refusal) as (settings, secrets, path):
        location = remotes.location_of(path, settings, secrets, None)
        result = back_up(source, tmp_path, location=location, folder="copy")
        assert Store(location, Event()).manifest("copy", result.snapshot, tmp_path / "manifest")
        [entry] = [each for each in manifests.read(tmp_path / "manifest") if each.path == name]
        digests, _ = Store(location, Event()).read("copy/files", [entry.place] if entry.is_kept else [])
    if kind == "s3":
        assert digests == {entry.place: sha256(CONTENT.encode()).hexdigest()}, "it came again, to another place"
    else:
        assert result.warnings == ("1 file was not copied", f"{name}: the server answered 403 Forbidden")
