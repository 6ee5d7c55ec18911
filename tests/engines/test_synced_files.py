"""Files that are synced one by one: each has what it should hold on its disk before anything names it."""

import os
from contextlib import closing
from pathlib import Path
from sqlite3 import connect
from threading import Event

import pytest

from engines.base import Verdict
from storage.places.location import of_directory
from storage.points.store import Store
from storage.points.trees import opened
from tests.engines.peers import back_up, specification


def test_a_dump_and_the_tree_of_a_point_are_synced_before_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = dict[int, tuple[bytes, set[str]]]()
    """Inode → the file's content, and the endings of the names that are there."""
    repository, cache = tmp_path / "repository" / "shop", tmp_path / "cache"

    def fsync(descriptor: int) -> None:
        named = {each.suffix for each in (*repository.glob("manifests/*"), *cache.glob("*"))}
        synced[os.fstat(descriptor).st_ino] = Path(f"/dev/fd/{descriptor}").read_bytes(), named

    with closing(connect(tmp_path / "shop.sqlite3")) as database, database:
        database.execute("CREATE TABLE articles AS SELECT 1 AS number")
    monkeypatch.setattr(os, "fsync", fsync)
    result = back_up(specification("sqlite", path=str(tmp_path / "shop.sqlite3"), secret=None), repository)
    assert result.verdict is Verdict.SUCCEEDED, result
    with opened(Store(of_directory(repository.parent), Event()), "shop", result.snapshot, cache):
        [tree] = cache.glob("*.sqlite3")
    [dump] = (repository / "files" / result.snapshot).iterdir()
    for file, name in ((dump, ".gz"), (tree, ".sqlite3")):
        content, named = synced[file.stat().st_ino]
        assert (content, name in named) == (file.read_bytes(), False)
