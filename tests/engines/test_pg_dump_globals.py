"""Roles and grants of a server: kept beside a dump, restored on another server, and never a reason to lose the dump."""

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from backupsched.embedded import Server
from engines.base import SourceSpec, Verdict
from external.processes.programs import find_postgresql_program, find_rclone
from storage import layout
from storage.places.location import Location
from storage.points import manifests
from storage.points.store import Store
from tests.conftest import FAST
from tests.engines.peers import STARTED_AT, back_up, specification

pytestmark = pytest.mark.slow

READER = "role 'with' \"quotes\""
READER_PASSWORD = "reader-password"
DUMPER_PASSWORD = "dumper-password"
SETUP = (
    sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(READER), READER_PASSWORD),
    sql.SQL("CREATE ROLE dumper LOGIN PASSWORD {}").format(DUMPER_PASSWORD),
    sql.SQL("CREATE DATABASE {}").format(sql.Identifier("shop=1")),
)
TABLES = (
    sql.SQL("CREATE TABLE orders AS SELECT n FROM generate_series(1, 1000) n"),
    sql.SQL("CREATE TABLE customers AS SELECT n FROM generate_series(1, 70) n"),
    sql.SQL("GRANT SELECT ON orders TO {}").format(sql.Identifier(READER)),
    sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO dumper"),
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from server(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Server]:
    yield from server(tmp_path / "fresh")


def server(var_dir: Path) -> Iterator[Server]:
    found = Server(var_dir, settings=FAST)
    found.ensure_running()
    yield found
    found.destroy()


@pytest.fixture(scope="module")
def database(shop: Server) -> SourceSpec:
    for name, statements in (("postgres", SETUP), ("shop=1", TABLES)):
        with shop.connect(name) as connection:
            for statement in statements:
                connection.execute(statement)
    return specification(
        "postgresql",
        str(shop.layout.socket_directory),
        path="shop=1",
        secret=shop.password(),
        options={"user": "backupsched"},
    )


def as_user(database: SourceSpec, user: str, password: str) -> SourceSpec:
    return SourceSpec(**asdict(database) | {"secret": password, "options": {"user": user}})


def counts(server: Server, password: str | None) -> dict[str, int]:
    with psycopg.connect(
        host=str(server.layout.socket_directory), user="backupsched", password=password, dbname="shop=1"
    ) as connection:
        tables = [name for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        counted = sql.SQL("SELECT count(*) FROM {}")
        return {name: connection.execute(counted.format(sql.Identifier(name))).fetchone()[0] for name in tables}


def test_a_role_with_its_password_and_its_grant_comes_back_on_a_fresh_server(
    database: SourceSpec, shop: Server, fresh: Server, tmp_path: Path
) -> None:
    result = back_up(database, tmp_path / "copy")
    assert (result.verdict, result.warnings) == (Verdict.SUCCEEDED, ()), result.error
    point = tmp_path / "copy/files" / result.snapshot
    environment = {"PGHOST": str(fresh.layout.socket_directory), "PGUSER": "backupsched"}
    for password, program, *arguments in (
        (fresh.password(), "psql", "--quiet", "--dbname=postgres", f"--file={point / 'globals.sql'}"),
        # by now the role that restores has the password that it had on the old server
        (shop.password(), "pg_restore", "--exit-on-error", "--create", "--dbname=postgres", point / "database.dump"),
    ):
        environment["PGPASSWORD"] = password or ""
        command = [find_postgresql_program(program), *arguments]
        ended = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
    assert counts(fresh, shop.password()) == counts(shop, shop.password()) == {"orders": 1000, "customers": 70}
    with psycopg.connect(
        host=environment["PGHOST"], user=READER, password=READER_PASSWORD, dbname="shop=1"
    ) as connection:
        assert connection.execute("SELECT count(*) FROM orders").fetchone() == (1000,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT count(*) FROM customers")


def test_who_may_not_read_passwords_keeps_the_roles_without_and_is_warned(database: SourceSpec, tmp_path: Path) -> None:
    result = back_up(as_user(database, "dumper", DUMPER_PASSWORD), tmp_path / "copy")
    assert result.verdict is Verdict.WARNINGS, result.error
    [warning] = result.warnings
    assert "without their passwords" in warning
    roles = (tmp_path / "copy/files" / result.snapshot / "globals.sql").read_text()
    assert "CREATE ROLE dumper;" in roles
    assert "SCRAM-SHA-256" not in roles


def test_who_may_not_even_list_roles_keeps_the_dump_and_is_warned(
    database: SourceSpec, shop: Server, tmp_path: Path
) -> None:
    with shop.connect("shop=1") as connection:
        connection.execute("REVOKE SELECT ON pg_roles FROM PUBLIC")
        connection.execute("GRANT SELECT (oid, rolname) ON pg_roles TO dumper")  # pg_dump reads these
    result = back_up(as_user(database, "dumper", DUMPER_PASSWORD), tmp_path / "copy")
    with shop.connect("shop=1") as connection:
        connection.execute("GRANT SELECT ON pg_roles TO PUBLIC")
    assert result.verdict is Verdict.WARNINGS, result.error
    [warning] = result.warnings
    assert warning.startswith("the roles of the server were not kept: create them before a restore (")
    assert [each.path for each in points(tmp_path / "copy")["20261121T065755Z"]] == ["database.dump", "database.json"]


CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "subprocess.Popen")


def killed_before(number: int, source: SourceSpec, destination: Path, started_at: datetime) -> bool:
    """Dump in a process of its own that is killed before its change of that number. Returns False if that is none."""
    if child := os.fork():
        return os.waitpid(child, 0)[1] != 0
    left = number

    def look(event: str, arguments: Any) -> None:
        nonlocal left
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR) and str(destination) in str(arguments[0])
        if event in CHANGES or writes:
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    try:
        sys.addaudithook(look)
        os._exit(back_up(source, destination, started_at=started_at).verdict is not Verdict.SUCCEEDED)
    finally:
        os._exit(1)


def points(destination: Path) -> dict[str, list[manifests.Entry]]:
    """The entries of each manifest; all files are there as the manifest says."""
    found = {
        file.name.removesuffix(layout.MANIFEST_ENDING): list(manifests.read(file))
        for file in (destination / "manifests").glob("*.jsonl.gz")
    }
    for name, entries in found.items():
        for entry in entries:
            assert (destination / "files" / name / entry.path).stat().st_size == entry.size
    return found


def test_a_kill_before_any_of_its_changes_leaves_whole_points_only_and_the_next_run_tidies_up(
    database: SourceSpec, tmp_path: Path
) -> None:
    destination, newest, seen = tmp_path / "copy", STARTED_AT, []
    (destination / "manifests").mkdir(parents=True)
    for step in range(100):
        newest += timedelta(hours=1)
        was_killed = killed_before(step, database, destination, newest)
        seen.append(len(points(destination)))
        if not was_killed:
            break
    assert step > 10
    assert seen[:10] == [0] * 10
    assert set(points(destination)) == {each.name for each in (destination / "files").iterdir()}
    assert layout.name_of(newest) in points(destination)


def test_an_encrypted_repository_gets_the_same_and_this_host_keeps_nothing(
    database: SourceSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files without names leave nothing to look for: what is asked is that rclone takes them whole."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    obscured = subprocess.run([find_rclone(), "obscure", "a key"], capture_output=True, text=True, check=True).stdout
    settings = {"TYPE": "crypt", "REMOTE": str(tmp_path / "vault"), "PASSWORD": obscured.strip()}
    environment = {f"RCLONE_CONFIG_SEALED_{name}": value for name, value in settings.items()}
    location = Location("sealed:", str(tmp_path / "vault"), environment)
    result = back_up(database, tmp_path, location=location, folder="shop-1/nightly")
    assert (result.verdict, result.files) == (Verdict.SUCCEEDED, 3), result.error
    store = Store(location, threading.Event())
    assert store.fetch(layout.manifest_path("shop-1/nightly", result.snapshot), tmp_path / "manifest")
    for entry in manifests.read(tmp_path / "manifest"):
        assert store.fetch(f"shop-1/nightly/files/{result.snapshot}/{entry.path}", tmp_path / entry.path)
        assert hashlib.sha256((tmp_path / entry.path).read_bytes()).hexdigest() == entry.digest
    pg_restore = find_postgresql_program("pg_restore")
    subprocess.run([pg_restore, "--file=/dev/null", tmp_path / "database.dump"], check=True)
    assert list((tmp_path / "scratch").iterdir()) == []
    assert not [each for each in (tmp_path / "vault").rglob("*") if "dump" in each.name]
