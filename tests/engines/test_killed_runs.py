"""A worker that is killed while its rclone is at work has noted nothing of what that rclone reports afterwards: what it
leaves on a server counts once it was compared.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engines.at_repositories import point_upkeep
from engines.base import EngineResult, Verdict
from storage import layout
from storage.places import remotes
from storage.places.identity import Identity
from storage.places.location import Location, of_directory
from storage.points import confirming, copy_leftovers, copying, manifests
from storage.points.compared_files import AT_ONCE
from storage.points.store import Store
from tests.append_only import append_only
from tests.engines.peers import STARTED_AT, back_up, local_folder, write_files
from tests.engines.served import KEY, serving
from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow
LATER = STARTED_AT + timedelta(days=1)
CONTENT, ENCRYPTED = "content", 48
FILES = {"a": "a", "b": "b", "z": "z"}
ROOT = Path(__file__).parents[2]


@dataclass
class Killing:
    """An append-only server that takes a file of the size of `CONTENT` (altered if it `alters`), and kills `child` as
    that looks for it. `whole`: the number of other files that were there then, and of that one if it is whole.
    """

    served: Path
    alters: bool
    child: "subprocess.Popen[bytes] | None" = None
    taken: Path | None = None
    whole: int = 0
    then: Callable[[str, str, Any], tuple[int, bytes] | None] = lambda command, path, headers: None

    def __call__(self, command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        there = self.served / path.strip("/")
        size = int(headers.get("Content-Length") or 0) if command == "PUT" and "/manifests/" not in path else 0
        if self.taken is None and self.child and size in (len(CONTENT), len(CONTENT) + ENCRYPTED):
            self.taken = there
            if self.alters:
                write_files(there.parent, **{there.name: "x" * size})
                return 200, b""
        elif self.child and there == self.taken:
            self.end()
            stored = [each for each in there.parents[1].rglob("*") if each.is_file()]
            self.whole = len(stored) - self.alters
            return 403, b"no"
        return self.then(command, path, headers)

    def end(self) -> None:
        if self.child:
            self.child.kill()
            self.child.wait()
            self.child = None

    def kill(self, what: str, tmp_path: Path, *facts: Any) -> None:
        """Begin work in another process, which is killed."""
        call = f"import sys, json; from tests.engines import test_killed_runs as t; t.{what}(*json.loads(sys.argv[1]))"
        arguments = [sys.executable, "-c", call, json.dumps([str(tmp_path), *facts])]
        self.child = child = subprocess.Popen(arguments, cwd=ROOT)
        child.wait(2 * PATIENCE)
        assert child.returncode == -signal.SIGKILL


@contextmanager
def killing(kind: str, tmp_path: Path) -> Iterator[tuple[Killing, tuple[Any, ...]]]:
    """Yields also the arguments of `remotes.location_of`, without the key."""
    found = Killing(tmp_path / "served", alters=kind == "s3")
    with append_only(kind, found.served, [], found) as (settings, secrets, path):
        yield found, (path, settings, secrets)


def begun_backup(folder: str, started_at: str, *there: Any) -> EngineResult:
    source, location = local_folder(Path(folder, "source")), remotes.location_of(*there)
    options, when = {"transfers": 1}, datetime.fromisoformat(started_at)
    return back_up(source, Path(folder), location=location, folder="copy", options=options, started_at=when)


def begun_copy(folder: str, at_once: int, *there: Any) -> copying.CopyResult:
    copying.AT_ONCE = copy_leftovers.AT_ONCE = at_once
    location = remotes.beside(remotes.location_of(*there))
    ours = Store(of_directory(Path(folder, "first")), Event(), beside=location)
    return copying.copy(ours, Store(location, Event()), "copy", options=("--transfers=1",))


def stored(location: Location, point: str, tmp_path: Path) -> dict[str, tuple[str, bool]]:
    """Path → SHA-256 of the stored file, and True if the last run has brought it."""
    store = Store(location, Event())
    assert store.manifest("copy", point, tmp_path / "manifest")
    places = {each.path: each.place for each in manifests.read(tmp_path / "manifest")}
    digests, problems = store.read("copy/files", list(places.values()))
    assert not problems
    return {path: (digests[place], place.startswith(point)) for path, place in places.items()}


def digests_of(files: dict[str, str]) -> dict[str, str]:
    return {path: sha256(content.encode()).hexdigest() for path, content in files.items()}


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
    files = FILES | {name: CONTENT}
    write_files(tmp_path / "source", **files)
    with killing(kind, tmp_path) as (server, there):
        server.kill("begun_backup", tmp_path, STARTED_AT.isoformat(), *there, key)
        result = begun_backup(str(tmp_path), LATER.isoformat(), *there, key)
        assert result.verdict is Verdict.SUCCEEDED, result
        found = stored(remotes.location_of(*there, key), result.snapshot, tmp_path)
    assert {path: digest for path, (digest, _) in found.items()} == digests_of(files)
    assert sum(not is_new for _, is_new in found.values()) == server.whole, "whole files are taken over"


@pytest.mark.parametrize(("kind", "name"), [("s3", "comes"), ("s3", "comes."), ("webdav-other", "comes")])
def test_what_a_killed_backup_has_brought_is_compared_once(
    kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first backup of weeks ends each day, and a day is too short to read all of the days before."""
    files, compared, is_full = FILES | {name: CONTENT}, list[str](), True
    write_files(tmp_path / "source", **files)
    compare = confirming.confirmed

    def noted(store: Store, source: str, location: Location, path: str, *how: Any, **watched: Any) -> set[str]:
        compared.append(path)
        return compare(store, source, location, path, *how, **watched)

    def refusal(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        is_file = "/files/" in path or path.endswith(layout.MANIFEST_ENDING)
        return (403, b"no") if is_full and command == "PUT" and is_file else None

    monkeypatch.setattr(confirming, "confirmed", noted)
    with killing(kind, tmp_path) as (server, there):
        server.kill("begun_backup", tmp_path, STARTED_AT.isoformat(), *there, None)
        server.then = refusal
        assert begun_backup(str(tmp_path), LATER.isoformat(), *there, None).verdict is not Verdict.SUCCEEDED
        is_full = False
        result = begun_backup(str(tmp_path), (LATER + timedelta(days=1)).isoformat(), *there, None)
        assert result.verdict is Verdict.SUCCEEDED, result
        found = stored(remotes.location_of(*there, None), result.snapshot, tmp_path)
    assert len(compared) == 1
    assert {path: digest for path, (digest, _) in found.items()} == digests_of(files)
    assert sum(not is_new for _, is_new in found.values()) == server.whole


@pytest.mark.parametrize("key", [None, KEY], ids=["a bucket", "an encrypted bucket"])
def test_a_copy_takes_over_whole_files_alone(key: str | None, tmp_path: Path) -> None:
    files = FILES | {"comes": CONTENT}
    point = back_up(local_folder(write_files(tmp_path / "source", **files)), tmp_path / "first/copy").snapshot
    with killing("s3", tmp_path) as (server, there):
        server.kill("begun_copy", tmp_path, AT_ONCE, *there, key)
        done = begun_copy(str(tmp_path), AT_ONCE, *there, key)
        assert (done.new, done.incomplete, done.wrong) == ([point], {}, [])
        assert done.files == len(files) - server.whole
        found = stored(remotes.location_of(*there, key), point, tmp_path)
    assert {path: digest for path, (digest, _) in found.items()} == digests_of(files)


@pytest.mark.parametrize(
    ("kind", "key", "at_once"),
    [
        ("s3", None, AT_ONCE),
        ("s3", KEY, AT_ONCE),
        ("webdav-other", None, AT_ONCE),
        ("webdav-other", KEY, AT_ONCE),
        ("s3", None, 1),
        ("webdav-other", KEY, 1),
    ],
)
def test_a_copy_compares_no_file_twice_nor_those_of_a_list_that_came_whole(
    kind: str, key: str | None, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the windows are short, it would do nothing else in the end. The second copy is killed after it has compared
    what the first one left, unless that one has noted its lists, of one file each."""
    files, compared = FILES | {"comes": CONTENT}, set[str]()
    point = back_up(local_folder(write_files(tmp_path / "source", **files)), tmp_path / "first/copy").snapshot
    compare = confirming.confirmed

    def counted(store: Store, source: str, location: Location, path: str, sizes: Any, *how: Any, **watched: Any) -> Any:
        compared.update(each.rpartition("/")[2] for each in sizes)
        return compare(store, source, location, path, sizes, *how, **watched)

    def killed(command: str, path: str, headers: Any) -> None:
        if command == "PUT" and path.strip("/").count("/") == (6 if key else 5):  # below a run, whatever its name
            server.end()

    monkeypatch.setattr(confirming, "confirmed", counted)
    with killing(kind, tmp_path) as (server, there):
        server.kill("begun_copy", tmp_path, at_once, *there, key)
        if at_once == AT_ONCE:
            server.taken, server.then = tmp_path, killed  # at the next file that comes
            server.kill("begun_copy", tmp_path, at_once, *there, key)
        server.then = lambda command, path, headers: None
        done = begun_copy(str(tmp_path), AT_ONCE, *there, key)
        found = stored(remotes.location_of(*there, key), point, tmp_path)
    assert (done.new, done.incomplete, done.wrong) == ([point], {}, [])
    assert compared.isdisjoint("ab"), "the altered one alone is compared again, and the last one of a list"
    assert {path: digest for path, (digest, _) in found.items()} == digests_of(files)


@pytest.mark.parametrize(("kind", "of_the_copy"), [("webdav", "s3"), ("webdav-owncloud", "s3"), ("s3", "s3")])
def test_a_file_may_take_longer_to_compare_than_a_program_may_stand_still(
    kind: str, of_the_copy: str, tmp_path: Path
) -> None:
    """rclone reports no progress before it has read the whole file."""

    def refusal(command: str, path: str, headers: Any) -> None:
        if command == "GET" and path.endswith("/x"):
            Event().wait(8.0)

    write_files(tmp_path, x="x" * 2**20)
    with append_only(kind, tmp_path / "first", [], refusal) as first, serving(of_the_copy, tmp_path / "copy") as copy:
        (settings, secrets, path), (of_copy, hidden, there) = first, copy
        source = remotes.location_of(path, settings, secrets, None)
        target = remotes.beside(remotes.location_of(there, of_copy, hidden, KEY))
        Store(source, Event()).put(tmp_path / "x", "files/x")
        Store(target, Event()).put(tmp_path / "x", "files/x")
        impatient = Store(source, Event(), 6.0, beside=target)
        assert confirming.confirmed(impatient, source.at("files"), target, "files", {"x": 2**20}) == {"x"}


@pytest.mark.parametrize(("kind", "is_damaged"), [("webdav", False), ("sftp", True)])
def test_what_a_copy_reads_to_compare_it_keeps_to_its_bandwidth_as_well(
    kind: str, is_damaged: bool, tmp_path: Path
) -> None:
    """`is_damaged`: a check has found the file damaged, and it is read in the first repository, before it comes."""
    folder = write_files(tmp_path / "source", x="")
    (folder / "x").write_bytes(os.urandom(5 * 2**20))  # servers may compress it
    with serving(kind, tmp_path / "first") as first, serving("s3", tmp_path / "copy") as copy:
        (settings, secrets, path), (of_copy, hidden, there) = first, copy
        source = remotes.location_of(path, settings, secrets, None)
        target = remotes.location_of(there, of_copy, hidden, KEY)
        done = back_up(local_folder(folder), tmp_path, location=source, folder="copy")
        facts: dict[str, Any] = {"location": source.as_json(), "folder": "copy", "target": target.as_json()}
        facts |= {"ours": vars(Identity("1f8a", "office", True)), "made": False, "newest": "", "again": []}
        facts |= {"damaged": {}, "zone": "Europe/Berlin", "reserve": 0.0}
        assert point_upkeep.copy_points(**facts, bandwidth="")["files"] == 1
        if is_damaged:
            facts["damaged"] = {done.snapshot: [f"{done.snapshot}/x"]}
        else:
            Store(target, Event()).remove(layout.manifest_path("copy", done.snapshot))
        begun = time.monotonic()
        assert point_upkeep.copy_points(**facts, bandwidth="00:00,1M")["files"] == is_damaged
        assert time.monotonic() - begun > 4.5 * (1 + is_damaged)


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
    if kind == "s3" and entry.is_kept:
        assert digests == {entry.place: sha256(CONTENT.encode()).hexdigest()}, "it came again, to another place"
    else:  # from S3 as well, if rclone tried it twice within one upload: the second answer is final
        assert result.warnings[0] == "1 file was not copied"
        assert result.warnings[1].startswith(f"{name}: ")
        assert "the server answered 403 Forbidden" in result.warnings[1]
