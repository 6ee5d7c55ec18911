"""The contents of a directory, listed here and by rclone: the same, so that manifests of either can be compared."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.places.location import Location, of_directory
from storage.points import files
from storage.points.digests import TOGETHER, digests_of_copy
from storage.points.files import path_in
from storage.points.store import StorageFailed, StorageStopped, Store
from storage.restic import listing

NAMES = [
    *(f"{code:x}{chr(code)}x" for code in (*range(1, 0x20), 0x7F, 0x85, 0xA0, 0x2028, *range(0x2400, 0x2427), 0xFF0F)),
    "\u2405", "\uff0e", "a\u201bb", "\u201b", "ü e\u0301 名", "-n 'q' \\ $", os.fsdecode(b"gro\xdf"),
]  # fmt: skip


def test_a_directory_is_listed_as_rclone_lists_it(tmp_path: Path) -> None:
    for number, name in enumerate(NAMES):
        # folders with a ‛ in their names rclone lists, and then does not find
        folder = tmp_path / "in" / (str(number) if {"\u201b", "\udcdf"} & set(name) else f"{number}{name}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, errors="surrogateescape")
        os.utime(folder / name, ns=(0, (number - 9) * 10**17 + number * 37))
    (tmp_path / "in/link").symlink_to("/etc")
    os.mkfifo(tmp_path / "in/pipe")
    store = Store(of_directory(tmp_path), Event())
    ours: dict[str, tuple[object, ...]] = {}
    store.walk("", lambda row: ours.update({row["Path"]: (row["Size"], row["ModTime"], row["IsDir"])}), among=["in"])
    rows: list[dict[str, Any]] = []
    store._list("", rows.append, "--recursive")
    rclones = {row["Path"]: (row["Size"], row["ModTime"], row["IsDir"]) for row in rows if row["Path"] != "in"}
    # but that a byte which is not UTF-8 is quoted, where rclone names all of them alike
    assert {path.replace("\u201bDF", "\ufffd"): facts for path, facts in ours.items()} == rclones
    assert len(store.sizes("in")) == len(NAMES)


def test_what_cannot_be_listed_is_said_where_rclone_says_it_behind_a_row(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}/file").touch()
    (tmp_path / "7/nowhere").symlink_to(tmp_path / "gone")
    found: list[str] = []
    store = Store(Location(str(tmp_path), str(tmp_path), {"RCLONE_COPY_LINKS": "true"}), Event())
    with pytest.raises(StorageFailed, match="no such file"):
        store.walk("", lambda row: found.append(row["Path"]), files_only=True)
    assert sorted(found) == sorted(f"{number}/file" for number in range(20))


def test_digests_of_a_copy_are_those_of_its_files(tmp_path: Path) -> None:
    paths = [f"{number}␤" for number in range(2 * TOGETHER + 1)]
    for number, path in enumerate(paths):
        Path(os.fsdecode(path_in(tmp_path, path))).write_bytes(b"%d" % number)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/hostname")
    (tmp_path / "folder").mkdir()
    found, unread = digests_of_copy(tmp_path, [*paths, "gone", "pipe", "link", "folder"], Event())
    assert found.pop("pipe") == hashlib.sha256().hexdigest()
    assert found == {path: hashlib.sha256(b"%d" % number).hexdigest() for number, path in enumerate(paths)}
    assert [path for path, _ in unread] == ["link", "folder"]
    (stop := Event()).set()
    with pytest.raises(StorageStopped):
        digests_of_copy(tmp_path, paths, stop)


def test_files_that_are_put_in_one_place_at_the_same_time_are_each_whole(tmp_path: Path) -> None:
    store = Store(of_directory(tmp_path), Event())
    texts = [letter * 200_000 for letter in (b"a", b"b")]  # more than a pipe holds: both copies are under way
    with ThreadPoolExecutor() as pool:
        puts, writers = [], []
        for number, text in enumerate(texts):
            os.mkfifo(pipe := tmp_path / f"pipe {number}")
            puts.append(pool.submit(store.put, pipe, "RECOVER.txt"))
            writers.append(pipe.open("wb", buffering=0))
            writers[-1].write(text)
        for writer in writers:
            writer.close()
    assert [put.result() for put in puts] == [None, None]
    assert (tmp_path / "RECOVER.txt").read_bytes() in texts
    assert sorted(os.listdir(tmp_path)) == ["RECOVER.txt", "pipe 0", "pipe 1"]


odd = st.sampled_from("aE9‛�\n\x7f␊␡é\udcff\udc80")
some_names = st.text(odd | st.characters(exclude_characters="/\0"), min_size=1)


@given(name=some_names)
def test_a_name_that_is_shown_has_one_way_back(name: str) -> None:
    on_disk = os.fsencode(name.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape"))
    assert files.relative(files.shown(os.fsdecode(on_disk))) == on_disk
    if name.isascii() or not any("\ud800" <= each <= "\udfff" for each in name):
        assert files.raw(listing.shown(name)) == name


def test_the_digest_of_a_file_that_grows_is_that_of_the_size_with_which_it_was_opened(tmp_path: Path) -> None:
    path, calls = tmp_path / "log", iter(range(3))
    path.write_bytes(b"x" * (files.READ_BYTES + 1))

    def grow() -> None:
        next(calls)
        with path.open("ab") as file:
            file.write(b"y" * files.READ_BYTES)

    assert files.digest_of(bytes(path), grow) == hashlib.sha256(b"x" * (files.READ_BYTES + 1)).hexdigest()
