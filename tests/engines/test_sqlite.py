"""The sqlite engine: real databases, with writers beside it, and what can go wrong."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from engines.at_repositories import questions
from engines.base import EngineProgress, EngineResult, RunEnded, SourceSpec, Verdict
from engines.restores import drilling, sqlite
from engines.restores.scratch import Scratch
from storage.places.location import Location
from storage.points import manifests
from storage.restoring.base import Report, RestoreRefused, Wish
from tests.engines import peers
from tests.engines.dumps import dumps_in
from tests.engines.peers import run, small_disk, specification, task_for
from tests.engines.restic_runs import FOLDER
from tests.processes import below
from tests.repositories import RepositoryHere, in_each_format
from tests.waiting import PATIENCE

POINT = "20261121T065755Z"
ROWS = 500
WRITER = """
import sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
print("ready", flush=True)
number = 0
while True:
    number += 1
    database.execute("BEGIN IMMEDIATE")
    database.execute("UPDATE pair SET first = ?", (number,))
    database.execute("UPDATE pair SET second = ?", (number,))
    database.execute("INSERT INTO filler VALUES (zeroblob(4000))")
    database.execute("COMMIT")
    time.sleep(0.002)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make(tmp_path / "shop, 100%?.sqlite3")


def make(file: Path, mode: str = "delete", filler: int = ROWS) -> Path:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(f"PRAGMA journal_mode = {mode}")
        database.execute("CREATE TABLE pair (first, second)")
        database.execute("INSERT INTO pair VALUES (0, 0)")
        database.execute('CREATE TABLE "odd ""name" (n)')
        database.execute("CREATE TABLE filler (bytes)")
        database.executemany("INSERT INTO filler VALUES (zeroblob(4000))", [()] * filler)
    return file


def source_of(file: Path) -> SourceSpec:
    return specification("sqlite", path=str(file), secret=None)


def back_up(file: Path, destination: Path, **fields: Any) -> EngineResult:
    return peers.back_up(source_of(file), destination, staging=str(destination.parent / "staging"), **fields)


def rows_of(file: Path) -> dict[str, list[tuple[Any, ...]]]:
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
        return {name: database.execute(f"SELECT * FROM {quoted[name]} ORDER BY rowid").fetchall() for name in names}


@contextmanager
def writer(file: Path) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("is_remote", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["folder", "remote"])
def test_the_copy_has_the_tables_of_the_source_row_by_row(shop: Path, tmp_path: Path, is_remote: bool) -> None:
    location = {"location": Location(str(tmp_path), str(tmp_path))} if is_remote else {}
    result = back_up(shop, tmp_path / "copy", **location)
    assert result.verdict is Verdict.SUCCEEDED, result.error
    copy = tmp_path / f"copy/files/{POINT}/database.sqlite"
    assert rows_of(copy) == rows_of(shop)
    assert (result.files, result.size) == (1, copy.stat().st_size)
    assert (result.tables, result.rows) == (3, sum(map(len, rows_of(shop).values())))
    assert dumps_in(tmp_path / "copy") == [POINT]
    assert os.listdir(copy.parent) == ["database.sqlite"], "no journal lies beside it"
    assert not [*(tmp_path / "staging").rglob("database*")]
    header = manifests.read_header(tmp_path / f"copy/manifests/{POINT}.jsonl.gz")
    assert (header.engine, header.engine_version) == ("sqlite", f"SQLite {sqlite3.sqlite_version}")
    assert questions.look(source_of(shop), PATIENCE, threading.Event()) == "the database may be read: it has 3 tables"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_writer_goes_on_and_the_copy_is_of_one_moment(tmp_path: Path, mode: str) -> None:
    file = make(tmp_path / "busy.sqlite3", mode, filler=5_000)
    with writer(file):
        result = back_up(file, tmp_path / "copy")
    assert result.verdict is Verdict.SUCCEEDED, result.error
    found = rows_of(tmp_path / f"copy/files/{POINT}/database.sqlite")
    [(first, second)] = found["pair"]
    assert first == second == len(found["filler"]) - 5_000


def test_what_is_only_in_the_log_of_a_database_in_use_is_copied(tmp_path: Path) -> None:
    file = make(tmp_path / "shop.sqlite3", "wal")
    with closing(sqlite3.connect(file)) as open_one:
        open_one.execute("UPDATE pair SET first = 7")
        open_one.commit()
        assert back_up(file, tmp_path / "copy").verdict is Verdict.SUCCEEDED
    assert rows_of(tmp_path / f"copy/files/{POINT}/database.sqlite")["pair"] == [(7, 0)]


@pytest.mark.slow
def test_what_can_go_wrong_leaves_no_point_and_says_what(shop: Path, tmp_path: Path) -> None:
    def failed(file: Path, **fields: Any) -> tuple[Verdict, str]:
        result = back_up(file, tmp_path / "copy", **fields)
        assert dumps_in(tmp_path / "copy") == []
        return result.verdict, result.error

    with closing(sqlite3.connect(shop, isolation_level=None)) as locking:
        locking.execute("BEGIN EXCLUSIVE")
        verdict, text = failed(shop, connect_timeout=0.3)
        assert (verdict, "another program keeps the database locked" in text) == (Verdict.SOURCE_FAILED, True), text
    damaged = make(tmp_path / "damaged.sqlite3")
    with damaged.open("r+b") as file:
        file.seek(4096 * 20)
        file.write(b"\xff" * 4096 * 5)
    verdict, text = failed(damaged)
    assert (verdict, "the database is damaged" in text) == (Verdict.SOURCE_FAILED, True), text
    (tmp_path / "text").write_text("no database at all, but longer than a header" * 100)
    for path, expected, words in (
        (tmp_path / "text", Verdict.SOURCE_FAILED, "or not a SQLite database"),
        (tmp_path / "none", Verdict.UNAVAILABLE, "the database is not there"),
        (tmp_path, Verdict.SOURCE_FAILED, "it is not a file"),
    ):
        verdict, text = failed(path)
        assert (verdict, words in text) == (expected, True), text
        with pytest.raises(RunEnded, match=words):
            questions.look(source_of(path), PATIENCE, threading.Event())
    interrupted = make(tmp_path / "interrupted.sqlite3")
    with closing(sqlite3.connect(interrupted, isolation_level=None)) as crashing:
        crashing.execute("PRAGMA cache_size = 5")
        crashing.execute("BEGIN")
        crashing.execute("UPDATE filler SET bytes = zeroblob(3999)")
        for suffix in ("", "-journal"):  # as a power cut would leave them
            (tmp_path / f"cut.sqlite3{suffix}").write_bytes(Path(f"{interrupted}{suffix}").read_bytes())
    verdict, text = failed(tmp_path / "cut.sqlite3")
    assert (verdict, "was interrupted as it wrote" in text) == (Verdict.SOURCE_FAILED, True), text


@pytest.mark.slow
def test_a_full_disk_is_the_repositorys_and_a_killed_copy_the_sources(tmp_path: Path) -> None:
    file = make(tmp_path / "large.sqlite3", filler=2_000)
    with small_disk(tmp_path / "disk", 2**22) as disk:
        full = back_up(file, disk / "copy")
        assert (full.verdict, dumps_in(disk / "copy")) == (Verdict.REPOSITORY_FAILED, []), full.error

    def kill(_: EngineProgress) -> None:
        for each in below(part="program.py"):
            each.kill()

    task, stop = task_for(source_of(file), tmp_path / "copy"), threading.Event()
    with closing(sqlite3.connect(file, isolation_level=None)) as locking:  # else it might be done before it is ended
        locking.execute("BEGIN EXCLUSIVE")
        killed = run(task, kill)
        assert (killed.verdict, "ended with signal 9" in killed.error) == (Verdict.SOURCE_FAILED, True), killed.error
        stopped = run(task, lambda _: stop.set(), stop)
        assert stopped.verdict is Verdict.STOPPED
    assert dumps_in(tmp_path / "copy") == []
    assert back_up(file, tmp_path / "copy").verdict is Verdict.SUCCEEDED


@in_each_format
def test_a_drill_counts_it_and_a_restore_makes_a_new_file_beside_it(format: str, shop: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(shop)) as database, database:
        database.execute("BEGIN")  # else each table waits for the disk
        for number in range(400):  # whose names fill no one line
            database.execute(f"CREATE TABLE orders_of_tenant_{number:0180} (id)")
    repository = RepositoryHere(format, tmp_path)
    result = repository.back_up(source_of(shop))
    assert (result.verdict, result.tables) == (Verdict.SUCCEEDED, 403), result
    [point], store = repository.points(), repository.store
    var = Path(tempfile.mkdtemp())  # which the account nobody may pass through, unlike `tmp_path`
    try:
        var.chmod(0o711)
        account = (65_534, 65_534) if os.geteuid() == 0 else None
        where = Scratch(str(var / "drills"), 0, account=account)
        found = drilling.drill(store, FOLDER, where, source_kind="sqlite")
        few = {name: rows for name, rows in found.tables.items() if not name.startswith("orders_of")}
        assert (found.point, found.error, len(found.tables)) == (point, "", 403)
        assert few == {"pair": 1, 'odd "name': 0, "filler": ROWS}
    finally:
        shutil.rmtree(var)
    shop.chmod(0o640)

    def restore() -> Report:
        wish = Wish(FOLDER, point, Path("again.sqlite3"))
        return sqlite.create(wish, store, source_of(shop), tmp_path / "trees", lambda step: None)

    assert restore().failed == []
    again = shop.with_name("again.sqlite3")
    assert (rows_of(again), again.stat().st_mode & 0o777) == (rows_of(shop), 0o640)
    with pytest.raises(RestoreRefused, match=r"there is a file .*again\.sqlite3 already"):
        restore()
    again.rename(f"{again}-wal")
    with pytest.raises(RestoreRefused, match=r"again\.sqlite3-wal already"):
        restore()
