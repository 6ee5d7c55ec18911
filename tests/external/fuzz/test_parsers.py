"""What outsiders wrote, changed at random: each parser answers, or refuses in its own words. No traceback, and no more
memory than the input is worth.

`BACKUPSCHED_FUZZ_MINUTES=60 .venv/bin/python -m pytest tests/external/fuzz -n 0` spends so long on all of them.
"""

import gzip
import hashlib
import json
import os
import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.base import RunEnded
from engines.imap import fetching
from engines.imap.session import session_with
from engines.rclone.log import RcloneLog
from engines.rclone.verdicts import judge
from engines.restic.engine import ResticProgress
from storage import layout
from storage.places import identity
from storage.places.identity import Identity, Refused
from storage.places.rclone import rows_to
from storage.points import manifests
from storage.points.manifests import Entry, Header, ManifestDamaged
from storage.points.store import StorageFailed, Store
from storage.restic import listing, snapshots
from storage.restic.program import Restic
from storage.restic.snapshots import Snapshot
from storage.restic.verdicts import problem_of
from tests.engines.hostile_mailbox import hostile_mailbox
from tests.external.fuzz.mutations import Mutation, mutations

pytestmark = pytest.mark.slow

MINUTES = float(os.environ.get("BACKUPSCHED_FUZZ_MINUTES", "0"))
EXAMPLES = 2_000 if MINUTES else 60
MOST_MEMORY = 256 * 2**20
"""Bytes that the process may grow by: inputs are below 1 MiB."""


@dataclass
class Folder:
    """Takes a store's place, without a process."""

    root: Path

    def fetch(self, path: str, file: Path) -> bool:
        file.write_bytes((self.root / path).read_bytes())
        return True


@dataclass
class Printing:
    """Takes restic's place: prints what it is given for each verb."""

    printed: dict[str, bytes]

    def run(self, verb: str, *arguments: str, on_line: Callable[[str], None] = lambda line: None, **_: Any) -> int:
        name = f"{verb} --long" if "--long" in arguments else verb
        for line in self.printed.get(name, b"").decode(errors="replace").split("\n"):
            on_line(line)
        return 0


HEADER = Header("anna", "local", "daily", "rclone", "1.75", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z")
ENTRIES = (
    Entry("a", "folder"), Entry("a/é\n", "file", 3, "2026-01-01T00:00:00Z", 0o644, "", "ab" * 32, "copy"),
    Entry("b", "link", 1, "2026-01-01T00:00:00.5Z", None, "a"),
)  # fmt: skip
SNAPSHOT = Snapshot("f" * 64, "2026-01-01T00:00:00.5+01:00", {"source": "anna", "point": "p", "assignment": "a"})
LS = b"""{"time":"2026-01-01T00:00:00Z","tree":"0123","paths":["/"],"struct_type":"snapshot"}
{"name":"a","type":"dir","path":"/a","uid":0,"gid":0,"mode":2147484141,"mtime":"2026-01-01T00:00:00.123+01:00"}
{"name":"b","type":"file","path":"/a/b","size":12,"mode":420,"mtime":"2026-01-01T00:00:00Z"}
{"name":"l","type":"symlink","path":"/l","mode":134218239,"mtime":"2026-01-01T00:00:00Z"}
"""
LONG = b"Lrwxrwxrwx     0     0      0 2026-01-01 00:00:00 /l -> a/b\n"
LISTED = json.dumps([
    {"time": SNAPSHOT.time, "id": "f" * 64, "tags": ["assignment=a-1/daily", "point=20260101T000000Z", "source=anna"]},
    {"time": SNAPSHOT.time, "id": "e" * 64, "tags": ["assignment=a-1/daily", "incomplete=20260101T000000Z"]},
]).encode()  # fmt: skip
RESTIC = b"""{"message_type":"status","total_files":9,"files_done":4,"total_bytes":9,"current_files":["/a"]}
{"message_type":"error","error":{"Op":"open","Path":"/a","Err":13},"during":"archival","item":"/a"}
{"message_type":"summary","files_new":1,"files_changed":0,"files_unmodified":0,"snapshot_id":"ab"}
"""
RCLONE = b"""{"level":"error","msg":"Failed to copy: permission denied","object":"a","objectType":"*local.Object"}
{"level":"notice","msg":"x - ignoring","object":"b","objectType":"string"}
{"level":"notice","msg":"","stats":{"bytes":5,"totalBytes":9,"eta":null,"transferring":[{"name":"a","bytes":3}]}}
panic: x
"""
ROWS = b"""[
{"Path":"a","Name":"a","Size":-1,"ModTime":"2026-01-01T00:00:00Z","IsDir":true},
{"Path":"a/b","Name":"b","Size":3,"ModTime":"2026-01-01T00:00:00Z","IsDir":false}
]
"""


def manifest_of(folder: Path) -> bytes:
    manifests.write(folder / "sample", HEADER, ENTRIES)
    return (folder / "sample").read_bytes()


def sealed(data: bytes) -> bytes:
    """A manifest of these lines with a digest that is right."""
    *lines, _ = data.splitlines(keepends=True) or [b""]
    body = b"".join(lines)
    rows = lines[1:]
    folders = sum(b'"folder"' in row for row in rows)
    trailer = {"files": len(rows) - folders, "size": 4, "folders": folders, "sha256": hashlib.sha256(body).hexdigest()}
    return gzip.compress(body + json.dumps(trailer).encode() + b"\n")


def read_manifest(data: bytes, folder: Path) -> None:
    (file := folder / "manifest").write_bytes(data)
    for read in (manifests.read_header, lambda it: [*manifests.read(it)], lambda it: manifests.find(it, "a/b")):
        try:
            read(file)
        except ManifestDamaged:
            continue


def read_identity(data: bytes, folder: Path) -> None:
    (folder / layout.REPOSITORY).write_bytes(data)
    try:
        if found := identity.read(cast("Store", Folder(folder))):
            identity.check(found, OURS)
    except Refused:
        return


OURS = Identity("0123", "office")


def read_snapshots(data: bytes, folder: Path) -> None:
    restic = cast("Restic", Printing({"snapshots": data}))
    try:
        for each in snapshots.snapshots(restic, "a-1/daily"):
            listing.header_of(each)
        snapshots.repository_of(restic)
    except StorageFailed:
        return


def read_listing(ls: bytes, long: bytes, folder: Path) -> None:
    try:
        listing.write_manifest(cast("Restic", Printing({"ls": ls, "ls --long": long})), SNAPSHOT, folder / "made")
    except StorageFailed:
        return
    [*manifests.read(folder / "made")]


def read_restic_log(data: bytes, folder: Path) -> None:
    progress = ResticProgress(lambda done: None)
    for line in data.decode(errors="replace").split("\n"):
        progress.take(line)
        problem_of(line)


def read_rclone_log(data: bytes, folder: Path) -> None:
    log = RcloneLog()
    for line in data.decode(errors="replace").split("\n"):
        log.take(line)
    judge(1, log, "/srv/backups")


def read_rows(data: bytes, folder: Path) -> None:
    try:
        for line in data.decode(errors="replace").split("\n"):
            rows_to(lambda row: None)(line)
    except StorageFailed:
        return


PARSERS: dict[str, Callable[[Mutation, Path], None]] = {
    "packed manifest": lambda change, folder: read_manifest(change(manifest_of(folder)), folder),
    "manifest": lambda change, folder: read_manifest(
        gzip.compress(change(gzip.decompress(manifest_of(folder)))), folder
    ),
    "sealed manifest": lambda change, folder: read_manifest(
        sealed(change(gzip.decompress(manifest_of(folder)))), folder
    ),
    "repository.json": lambda change, folder: read_identity(change(json.dumps(asdict(OURS)).encode()), folder),
    "restic snapshots": lambda change, folder: read_snapshots(change(LISTED), folder),
    "restic ls": lambda change, folder: read_listing(change(LS), LONG, folder),
    "restic ls --long": lambda change, folder: read_listing(LS, change(LONG), folder),
    "restic's log": lambda change, folder: read_restic_log(change(RESTIC), folder),
    "rclone's log": lambda change, folder: read_rclone_log(change(RCLONE), folder),
    "rclone lsjson": lambda change, folder: read_rows(change(ROWS), folder),
}


def rounds(share: float) -> Iterable[int]:
    """One; with minutes to spend, as many as fit into this share of them."""
    until = time.monotonic() + 60 * MINUTES * share
    yield 0
    number = 1
    while time.monotonic() < until:
        yield number
        number += 1


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.timeout(0 if MINUTES else 600)
@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_answers_or_refuses_in_its_own_words(name: str, tmp_path: Path) -> None:
    before = memory()
    for _ in rounds(0.7 / len(PARSERS)):

        @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
        @given(mutations)
        def play(change: Mutation) -> None:
            PARSERS[name](change, tmp_path)

        play()
    assert memory() - before < MOST_MEMORY


@pytest.mark.timeout(0 if MINUTES else 600)
def test_a_mailbox_is_read_or_refused_whatever_its_server_answers(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(fetching, "say", lambda line: None)
    usual = {1: b"one\r\n", 2: b"two" * 1000}
    with hostile_mailbox(messages=usual) as server:
        for _ in rounds(0.3):

            @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
            @given(mutations, st.integers(0, 12))
            def play(change: Mutation, which: int) -> None:
                asked = count()

                def fault(command: str) -> bytes | None:
                    if next(asked) != which:
                        return None
                    return change(server.answer(command) + b"TAG OK done\r\n")

                server.fault = fault
                source, found = server.source(), fetching.Fetched()
                try:
                    with session_with(source, 5, 0.2, found.receive) as session:
                        fetching.bring_up_to_date(session, source, tmp_path / "mail", found)
                except RunEnded:
                    pass

            play()
