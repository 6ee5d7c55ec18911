"""Announcements and answers of a repository's server are bounded, and so is the content of a folder of this host."""

import ast
import contextlib
import gzip
import json
import os
import shutil
import socket
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import pytest

from external.processes import serving
from storage import layout
from storage.folders import room
from storage.places import identity, rclone, remotes
from storage.places.location import of_directory
from storage.places.rclone import command_line, expected
from storage.points import amiss, manifests, moving
from storage.points.manifests import Entry, Header, ManifestDamaged
from storage.points.moving import FOR_A_FILE, LEAST_RATE, WINDOW_SECONDS, TransferProgress
from storage.points.store import StorageFailed, StorageStopped, Store
from storage.points.trees import opened
from storage.restoring import into_folder
from storage.restoring.base import Wish
from tests.engines.peers import small_disk, write_files
from tests.engines.webdav_shares import FILE, hostile_share
from tests.product import modules
from tests.storage.building import ASSIGNMENT, Built
from tests.storage.repositories import encrypted

HUGE = 3 * 2**30


def share_of(address: str, stop: threading.Event | None = None) -> Store:
    remote = {"type": "webdav", "url": address, "vendor": "other"}
    return Store(remotes.location_of("", remote, {}, None), stop or threading.Event())


def test_every_rclone_allocates_nothing_beforehand_and_has_a_limit() -> None:
    assert {"--local-no-preallocate", "--max-transfer=5B"} <= {*command_line("copy", "a", "b", most=5)}
    # asks for types only; serves restic, which writes elsewhere; looks whether it is there; the one place; plays hosts
    allowed = {
        "storage/places/providers.py", "storage/restic/program.py", "external/processes/programs.py",
        "storage/places/rclone.py", "demo/hosts.py",
    }  # fmt: skip
    found = {
        path: ast.unparse(node)
        for path, tree in modules("find_rclone()")
        for node in ast.walk(tree)
        if isinstance(node, ast.Tuple | ast.Starred | ast.List) and "find_rclone()" in ast.unparse(node)
    }
    assert found.keys() <= allowed, "use `command_line`"


@pytest.mark.parametrize("end", ["kill -9 $$", "kill -15 $$", "exit 2"])
def test_an_rclone_that_breaks_off_after_the_error_of_one_file_has_not_read_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    program = tmp_path / "rclone"
    program.write_text(f"""#!/bin/sh\necho '{{"time":"now","level":"error","msg":"corrupt","object":"a"}}'\n{end}\n""")
    program.chmod(0o755)
    monkeypatch.setattr(rclone, "find_rclone", lambda: str(program))
    store = Store(remotes.location_of(str(tmp_path), {}, {}, "the key"), threading.Event())
    with pytest.raises(StorageFailed, match=r"broke down|ended with code -"):
        store.read("files", ["a", "b"])


@pytest.mark.parametrize("name", ["scrypt.c", "corrupt/BlobArchived", "unexpected EOF"])
def test_a_file_whose_name_reads_like_damage_is_out_of_reach_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    error = {"level": "error", "msg": f"failed to open file {name}: connection reset by peer", "object": name}
    program = tmp_path / "rclone"
    program.write_text(f"#!/bin/sh\necho '{json.dumps({'time': 'now'} | error)}'\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(rclone, "find_rclone", lambda: str(program))
    with pytest.raises(StorageFailed, match="connection reset"):
        share_of("http://127.0.0.1:9").read("", [name])


def test_a_file_that_is_announced_as_huge_takes_no_room_before_it_comes(tmp_path: Path) -> None:
    allocated, stop = list[int](), threading.Event()

    class Watched(threading.Event):
        def is_set(self) -> bool:
            allocated.extend(each.stat().st_blocks * 512 for each in tmp_path.glob(f"{FILE}*"))
            return stop.is_set() or bool(allocated) or time.monotonic() > until

    until = time.monotonic() + 60
    with hostile_share(HUGE, b"x", pause=0.01) as share, pytest.raises(StorageStopped):
        share_of(share.address, Watched()).fetch(FILE, tmp_path / FILE, 2 * HUGE)
    assert allocated
    assert max(allocated) < 2**26


def test_what_comes_without_end_is_ended_at_what_may_come(tmp_path: Path) -> None:
    with hostile_share(HUGE, bytes(2**20)) as share:
        store = share_of(share.address)
        with pytest.raises(StorageFailed, match="more than 1,048,576 bytes"):
            store.fetch(FILE, tmp_path / FILE)
        with pytest.raises(StorageFailed, match=f"more than {expected(1000):,} bytes"):
            store.copy_out("", str(tmp_path / "to"), [FILE], lambda files, size: None, most=expected(1000))
    left = sum(file.stat().st_blocks * 512 for file in tmp_path.rglob("*"))
    assert left < 2 * expected(0)


@pytest.mark.slow
def test_what_fills_the_disk_is_ended_while_its_reserve_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "reserve_percent", 5.0)
    with small_disk(tmp_path / "disk", 200 * 2**20) as disk, hostile_share(HUGE, bytes(2**18), pause=0.02) as share:
        with pytest.raises(StorageFailed, match="fills the disk"):
            share_of(share.address).copy_out("", str(disk), [FILE], lambda files, size: None)
        found = os.statvfs(disk)
        assert found.f_bavail * found.f_frsize > 2**20


def stats(**done: int) -> str:
    fields = ",".join(f'"{name}":{value}' for name, value in done.items())
    return f'{{"level":"error","stats":{{{fields}}}}}'


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


def test_what_only_drips_is_no_sign_of_life_for_ever(clock: list[float]) -> None:
    moved = TransferProgress(clock=lambda: clock[0])
    for number in range(1, 3):  # it moves, slowly enough
        clock[0] += WINDOW_SECONDS
        moved.take(stats(bytes=int(LEAST_RATE * WINDOW_SECONDS * number)))
        moved()
    clock[0] += WINDOW_SECONDS - 1
    moved()
    clock[0] += 1
    with pytest.raises(StorageFailed, match="fewer than 1,000 bytes a second"):
        moved()


def test_small_files_are_not_too_slow(clock: list[float]) -> None:
    moved = TransferProgress(clock=lambda: clock[0])
    for number in range(1, 4):
        clock[0] += WINDOW_SECONDS
        moved.take(stats(bytes=0, transfers=int(number * LEAST_RATE * WINDOW_SECONDS / FOR_A_FILE)))
        moved()


@pytest.mark.parametrize("what", ["link", "pipe", "sparse", "device", "folder", "socket", "below a file"])
def test_what_is_no_file_of_ours_in_a_folder_of_this_host_is_not_read(tmp_path: Path, what: str) -> None:
    file = tmp_path / "repository.json"
    match what:
        case "link":
            file.symlink_to("/dev/zero")
        case "pipe":
            os.mkfifo(file)
        case "sparse":
            file.touch()
            os.truncate(file, 2**40)
        case "device":
            file = Path("/dev/zero")
        case "folder":
            file.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(tmp_path):  # a short name
                server.bind(file.name)
        case "below a file":
            file.touch()
            file /= "manifest"
    with pytest.raises(StorageFailed, match="nothing was read"):
        moving.fetch_here(file, tmp_path / "copy", 2**20)
    assert not (tmp_path / "copy").exists() or (tmp_path / "copy").stat().st_size == 0


@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        pytest.param(Path.mkdir, marks=pytest.mark.slow),
        pytest.param(lambda place: place.symlink_to("/dev/zero"), marks=pytest.mark.slow),
    ],
)
def test_what_is_no_file_in_an_encrypted_folder_is_not_waited_for(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    (source := tmp_path / "source").write_bytes(b"content")
    store = Store(encrypted(of_directory(there := tmp_path / "there")), threading.Event(), stall_timeout=90)
    store.put(source, "in/good")
    before = {*there.rglob("*")}
    store.put(source, "in/bad")
    (place,) = {*there.rglob("*")} - before
    place.unlink()
    make(place)
    with pytest.raises(moving.NotOurFile, match="in/bad is not a file: nothing was read"):
        store.fetch("in/bad", tmp_path / "fetched")
    store.copy_out("in", str(out := tmp_path / "out"), ["good", "bad"], lambda files, size: None)
    store.copy_as("in", str(out), {"good": "1", "bad": "2"}, {})
    assert sorted(each.name for each in out.iterdir()) == ["1", "good"]
    assert store.fetch("in/good", tmp_path / "fetched")
    assert store.files_among("elsewhere", ["a"]) == ["a"], "that cannot be listed"


def test_what_moves_within_a_repository_has_no_limit() -> None:
    assert not [each for each in command_line("move", "a", "b") if each.startswith("--max-transfer")]


@pytest.mark.parametrize(
    "contents", [["a" * 21], ["a" * 11, "b" * 11], ["\0".join("abcdef")], ["\0".join("abc"), "\0".join("def")], None]
)
def test_a_forged_note_of_files_that_may_be_amiss_costs_no_memory_and_fails_nothing(
    contents: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amiss, "MOST", 20)
    monkeypatch.setattr(amiss, "MOST_PLACES", 5)
    store, folder = Store(of_directory(tmp_path), threading.Event()), tmp_path / f"copy/{layout.MANIFESTS}"
    amiss.note(store, "copy", "20261130T000000Z", [*"ghijk"])
    notes = store.names(f"copy/{layout.MANIFESTS}")
    assert amiss.noted(store, "copy", notes) == {*"ghijk"}
    forged = {f"20261130T000000Z.{amiss.digits(each.encode())}{layout.AMISS}": each for each in contents or ()}
    write_files(folder, **forged)
    if contents is None:
        (folder / (link := notes[0].replace("Z.", "Z.0"))).symlink_to("/dev/zero")
        forged[link] = ""
    assert amiss.noted(store, "copy", forged) is None, "any file of this run may be amiss"


HEADER = Header("nas", "local", "nightly", "rclone", "v1.75.2", "2026-11-21T06:57:55Z", "")


def write(file: Path, entries: Iterable[Entry], more: bytes = b"") -> Path:
    """A manifest that is right in itself, and what is packed behind it."""
    manifests.write(file, HEADER, entries)
    if more:
        file.write_bytes(file.read_bytes() + gzip.compress(more))
    return file


def deep(number: int, parts: int = 255) -> str:
    """A path of so many folders, none of which another one has."""
    return "/".join([f"{number:012}", *["a" * 14] * (parts - 2), "f"])


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("line", "a line of more than 65,536 bytes"),
        pytest.param("bomb", "unpacks to more than 100 times", marks=pytest.mark.slow),
        ("path", "a line that is not an entry"),
        ("parts", "a line that is not an entry"),
        ("target", "a line that is not an entry"),
        ("behind", "does not match its own digest"),
        ("sum", "more bytes than any disk holds"),
        ("debt", "a line that is not an entry"),
        ("half", "a line that is not an entry"),
    ],
)
def test_a_manifest_has_its_bounds(tmp_path: Path, what: str, named: str) -> None:
    entries = {
        "line": [Entry("a", modified="x" * 2**17)],
        "bomb": (Entry(f"{number:07}{'a' * 4000}") for number in range(60_000)),
        "path": [Entry("a/" * 2048 + "f")],
        "parts": [Entry(deep(0, 256))],
        "target": [Entry("a", "link", target="b" * 4097)],
        "behind": [Entry("a")],
        "sum": [Entry(each, size=2**62, folder="20261121T065755Z") for each in "ab"],
        "debt": [Entry("a", size=-1)],
        "half": [Entry("a\ud800")],
    }[what]
    file = write(tmp_path / "manifest", entries, b'{"path":"b","kind":"file","size":1}\n' if what == "behind" else b"")
    with pytest.raises(ManifestDamaged, match=named):
        for _ in manifests.read(file):
            pass


def test_what_file_systems_take_is_within_them(tmp_path: Path) -> None:
    entries = [Entry(deep(0)), Entry("ы" * 127 + "/" + "z" * 3000, "link", target="ы" * 2000)]
    assert list(manifests.read(write(tmp_path / "manifest", entries))) == entries


def test_an_index_grows_with_the_names_in_a_manifest_and_not_with_the_square_of_the_depth(built: Built) -> None:
    paths = [deep(number) for number in range(250)]
    built.point("20261121T065755Z", [Entry(path, size=1, folder="20261121T065755Z") for path in paths])
    cache = built.folder / "trees"
    with opened(built.store, ASSIGNMENT, "20261121T065755Z", cache) as tree:
        assert tree.total() == (250, 250)
        assert tree.total("/".join(paths[7].split("/")[:200])) == (1, 1)
        assert [each.path for each in tree.below(paths[7].partition("/")[0]) if each.kind == "file"] == [paths[7]]
        assert tree.entry(paths[9]) == Entry(paths[9], size=1, folder="20261121T065755Z")
    [index] = cache.glob("*.sqlite3")
    assert index.stat().st_size < 25 * sum(map(len, paths))


def test_a_folder_of_any_number_of_folders_is_walked_in_bounded_memory(built: Built) -> None:
    """As for a download, in a process of the website."""
    point = "20261121T065755Z"
    paths = [f"f{number:06}{'x' * 200}/a" for number in range(5_000)]
    built.point(point, [Entry(each, size=1, folder=point) for each in paths])
    with opened(built.store, ASSIGNMENT, point, built.folder / "trees") as tree:
        tracemalloc.start()
        found = sum(1 for _ in tree.below(""))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert [each.path for each in islice(tree.below(""), 5_000, 5_002)] == paths[:2]
    assert (found, most < 200 * len(paths)) == (10_000, True), most


def test_an_index_is_ended_before_it_fills_the_disk(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    built.point("20261121T065755Z", [Entry("a")])
    monkeypatch.setattr(serving, "reserve_percent", 5.0)
    monkeypatch.setattr(room, "GIB", 2**60)
    monkeypatch.setattr(room, "reserve_of", lambda total, percent: 2 * total)
    monkeypatch.setattr(moving, "LITTLE", 0)
    with (
        pytest.raises(StorageFailed, match="fills the disk") as refused,
        opened(built.store, ASSIGNMENT, "20261121T065755Z", built.folder / "trees"),
    ):
        pass
    assert list((built.folder / "trees").iterdir()) == []
    asked = str(refused.value).rpartition(" MiB have to stay free")[0].rpartition(" ")[2].replace(",", "")
    assert float(asked) == pytest.approx(2 * shutil.disk_usage(built.folder).total / 2**20, rel=0.1)


def test_what_another_one_has_filled_ends_no_small_work(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built.write("a", "x")
    point = built.back_up()
    monkeypatch.setattr(serving, "reserve_percent", 5.0)
    with small_disk(tmp_path / "disk", 100 * 2**20) as disk:
        (disk / "of another one").write_bytes(bytes(97 * 2**20))
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        assert identity.read(built.store)
        into_folder.restore(Wish(ASSIGNMENT, point, tmp_path / "to"), built.store, disk / "trees")
    assert (tmp_path / "to/a").read_text() == "x"


@pytest.fixture
def built(tmp_path: Path) -> Built:
    return Built(tmp_path / "built")
