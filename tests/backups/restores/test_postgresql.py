"""Databases of PostgreSQL come back into servers of every version."""

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from engines.base import SourceSpec, Verdict
from engines.restores import postgresql
from engines.restores.pg import leftover
from engines.restores.terms import Terms
from storage.places.location import of_directory
from storage.points.store import Store
from storage.restoring.base import Report, RestoreRefused, TargetFailed, Wish
from tests.backups.restores.databases_here import databases, shop
from tests.engines.peers import back_up
from tests.engines.postgresql_peer import DEBIAN, PostgresqlServer, postgresql_server
from tests.storage.building import ASSIGNMENT, Built
from tests.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def old() -> Iterator[PostgresqlServer]:
    with postgresql_server(DEBIAN) as server:
        yield server


def restored(server: PostgresqlServer, folder: Path, name: str, into: SourceSpec | None = None) -> Report:
    """Back up the database `shop` of a server, and restore it as a new one; `into`: by another role."""
    built = Built(folder / "built")
    result = back_up(server.source(), built.folder / "repository" / ASSIGNMENT)
    assert result.snapshot, result.error
    wish = Wish(ASSIGNMENT, result.snapshot, Path(name))
    return postgresql.create(wish, built.store, into or server.source(), folder / "cache", lambda step: None)


def test_a_server_that_is_older_than_the_programs_gets_its_database_back(old: PostgresqlServer, tmp_path: Path) -> None:
    """And it does not insist on the database that is usually there for maintenance."""
    shop(old, "CREATE TABLE orders AS SELECT n FROM generate_series(1, 10) n")
    try:
        with old.connect("template1") as connection:
            connection.execute("ALTER DATABASE postgres RENAME TO other")
        report = restored(old, tmp_path, "shop2")
    finally:
        with old.connect("template1") as connection:
            connection.execute("ALTER DATABASE other RENAME TO postgres")
    assert report.failed == []
    assert old.ask("SELECT count(*) FROM orders", "shop2") == [(10,)]
    with pytest.raises(RestoreRefused, match="there is a database 'shop' at"):
        restored(old, tmp_path / "again", "shop")
    old.run("DROP DATABASE shop")
    store = Store(of_directory(tmp_path / "built/repository"), Event())
    [point] = [each.name for each in (tmp_path / "built/repository" / ASSIGNMENT / "files").iterdir()]
    postgresql.create(Wish(ASSIGNMENT, point, Path("shop")), store, old.source(), tmp_path / "own", lambda step: None)
    assert old.ask("SELECT count(*) FROM orders", "shop") == [(10,)]


BAD_ROWS = """
CREATE TABLE orders (n integer);;
CREATE TABLE bad (secret text CHECK (current_database() = 'shop'));;
INSERT INTO bad VALUES ('hunter2')
"""


@pytest.mark.promise
def test_what_failed_lies_in_a_file_for_who_may_restore_and_its_rows_nowhere_else(
    old: PostgresqlServer, tmp_path: Path
) -> None:
    shop(old, BAD_ROWS)
    report = restored(old, tmp_path, "half")
    assert report.failed == [
        "TABLE DATA public.bad: 23514 check violation",
        "table public.bad has 0 rows, and the dump holds 1",
    ]
    assert (report.failed_files, report.what) == (2, "object")
    [file] = (tmp_path / leftover.FOLDER).iterdir()
    assert str(file) in report.elsewhere
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "hunter2" in file.read_text()
    assert "hunter2" not in f"{report}"
    assert old.ask("SELECT count(*) FROM orders", "half") == [(0,)]


@pytest.mark.parametrize(
    ("offset", "said"),
    [(0, "invalid page in block"), (8192, "invalid page in block"), (None, 'could not open file "base/')],
)
def test_a_table_that_the_server_cannot_read_costs_no_other_one(
    old: PostgresqlServer, tmp_path: Path, offset: int | None, said: str
) -> None:
    old.run("DROP DATABASE IF EXISTS ill")
    shop(
        old,
        'CREATE TABLE "Bad ""one" AS SELECT n FROM generate_series(1, 1000) n;;'
        "CREATE TABLE orders AS SELECT n FROM generate_series(1, 10) n;; CHECKPOINT",
    )
    [(file,)] = old.ask('SELECT pg_relation_filepath(\'"Bad ""one"\')', "shop")
    old.run("CREATE DATABASE ill TEMPLATE shop STRATEGY file_copy")  # nothing of it is in memory
    [(ill,)] = old.ask("SELECT 'base/' || oid FROM pg_database WHERE datname = 'ill'")
    damaged = old.folder / "data" / ill / Path(file).name
    if offset is None:
        damaged.unlink()
    else:
        with damaged.open("r+b") as pages:
            pages.seek(offset)
            pages.write(b"\xff" * 64)
    result = back_up(old.source(path="ill"), tmp_path / "repository" / ASSIGNMENT)
    assert result.verdict is Verdict.WARNINGS, result.error
    named = f'not in the dump: the rows of public."Bad ""one", which the server cannot read ({said})'
    assert result.warnings[0].startswith(named), result.warnings
    assert (result.tables, result.rows) == (1, 10)


def test_a_disk_without_room_is_seen_before_the_dump_is_fetched_or_its_size_is_named(
    old: PostgresqlServer, tmp_path: Path
) -> None:
    shop(old, "CREATE TABLE orders AS SELECT 1 AS n")
    [(folder,)] = old.ask("SELECT 'base/' || oid FROM pg_database WHERE datname = 'shop'")
    disk = os.statvfs(old.folder)
    with (old.folder / "data" / folder / "999999").open("wb") as nothing:
        nothing.truncate(disk.f_bavail * disk.f_frsize + 2**40)  # which takes no room itself
    built = Built(tmp_path / "built")
    point = back_up(old.source(), built.folder / "repository" / ASSIGNMENT).snapshot
    old.run("DROP DATABASE shop;; CREATE ROLE far LOGIN CREATEDB CREATEROLE PASSWORD 'f'")
    before = databases(old)

    def restore_it(into: SourceSpec, *, dry_run: bool) -> Report:
        wish = Wish(ASSIGNMENT, point, Path("large"), dry_run=dry_run)
        return postgresql.create(wish, built.store, into, tmp_path / "cache", lambda step: None)

    for dry_run in (True, False):
        with pytest.raises(
            RestoreRefused, match=r"the database had [\d,]{17,} bytes, and the disk of .* free: make room there"
        ):
            restore_it(old.source(), dry_run=dry_run)
    assert databases(old) == before
    elsewhere = replace(old.source(), options={"user": "far"}, secret="f")  # it may not ask where the data are
    [said] = [each for each in restore_it(elsewhere, dry_run=True).not_set if "bytes" in each]
    assert said.endswith("cannot be seen from here")
    restore_it(elsewhere, dry_run=False)
    assert old.ask("SELECT n FROM orders", "large") == [(1,)]


def test_what_the_server_refuses_is_final_and_one_that_goes_away_is_not(old: PostgresqlServer, tmp_path: Path) -> None:
    old.run("CREATE ROLE weak LOGIN PASSWORD 'w'")
    shop(
        old,
        "CREATE TABLE orders AS SELECT n FROM generate_series(1, 10) n;;"
        "CREATE FUNCTION gone(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN IF current_database() <> 'shop'"
        " THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN n; END$$;;"
        "CREATE INDEX ON orders (gone(n))",
    )
    weak = replace(old.source(), options={"user": "weak"}, secret="w")
    with pytest.raises(RestoreRefused, match="the role weak may not create a database there: ALTER ROLE weak CREATEDB"):
        restored(old, tmp_path / "weak", "shop3", weak)
    logins = old.ask("SELECT count(*) FROM pg_roles WHERE rolname ^@ 'backupsched_'")
    with pytest.raises(TargetFailed, match="the server went away: "):
        restored(old, tmp_path / "away", "shop3")
    assert old.ask("SELECT count(*) FROM pg_roles WHERE rolname ^@ 'backupsched_'") == logins
    assert not {"shop3", "shop3.unfinished"} & databases(old)


def test_a_connection_that_is_lost_before_the_owner_leaves_no_database_of_that_name(
    old: PostgresqlServer, tmp_path: Path
) -> None:
    old.run("CREATE ROLE goner")
    old.run("DROP DATABASE IF EXISTS shop;; CREATE DATABASE shop OWNER goner")
    old.run("CREATE TABLE orders AS SELECT 1 AS n", "shop")
    built = Built(tmp_path / "built")
    result = back_up(old.source(), built.folder / "repository" / ASSIGNMENT)
    old.run("DROP DATABASE shop")
    waits = "FROM pg_stat_activity WHERE query ^@ 'ALTER DATABASE \"whole\" OWNER' AND wait_event_type = 'Lock'"

    def restore_it() -> Report:
        wish, cache = Wish(ASSIGNMENT, result.snapshot, Path("whole")), tmp_path / "cache"
        return postgresql.create(wish, built.store, old.source(), cache, lambda step: None, terms=Terms(trusted=True))

    with ThreadPoolExecutor(1) as pool, old.connect() as other:
        other.execute("BEGIN")
        other.execute("DROP ROLE goner")  # the change of the owner waits for the end of this
        restoring = pool.submit(restore_it)
        eventually(lambda: old.ask(f"SELECT 1 {waits}"))
        old.ask(f"SELECT pg_terminate_backend(pid) {waits}")
        other.execute("ROLLBACK")
        with pytest.raises(TargetFailed):
            restoring.result()
    assert "whole" not in databases(old)
    assert restore_it().failed == []
    assert old.ask("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'whole'") == [("goner",)]
