"""The pg_dump engine against the real PostgreSQL of the test session."""

import dataclasses
import hashlib
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from engines import engine_for, limits
from engines.base import EngineProgress, RunEnded, SourceSpec, Verdict
from engines.postgresql import engine
from engines.postgresql.engine import judge_dump
from external.processes.programs import find_postgresql_program
from external.processes.runner import EndReason, ProgramEnd
from storage import layout
from storage.places.location import Location
from storage.points import manifests
from storage.points.store import Store
from storage.points.trees import opened
from tests.backups.restores.databases_here import database_of_the_tests
from tests.engines.dumps import dumps_in
from tests.engines.peers import back_up as dump
from tests.engines.peers import free_port, loopback_address, run, specification, task_for, write_files
from tests.engines.restic_runs import FOLDER
from tests.repositories import RepositoryHere, in_each_format

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def database() -> SourceSpec:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE engine_test AS SELECT n, repeat('x', 100) AS text FROM generate_series(1, 1000) n")
    return database_of_the_tests()


@pytest.fixture(autouse=True)
def _without_test_table(database: SourceSpec) -> Iterator[None]:
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE engine_test")


@in_each_format
def test_a_database_is_dumped_into_one_good_point(format: str, database: SourceSpec, tmp_path: Path) -> None:
    """A repository of restic gets it by way of files of this host, of which nothing stays."""
    repository, seen = RepositoryHere(format, tmp_path), list[EngineProgress]()
    result = repository.back_up(database, seen.append, policy="nightly")
    assert result.verdict is Verdict.SUCCEEDED, result.error
    assert not [each for each in (tmp_path / "staging").rglob("*") if each.suffix in (".dump", ".sql", ".gz")]
    [point], report = repository.points(), repository.restored(tmp_path / "back")
    assert (layout.point_of(result.snapshot), report.files, report.failed) == (point, 3, [])
    names = ("database.dump", "database.json", "globals.sql")
    file, about, roles = files = [tmp_path / "back" / name for name in names]
    size = sum(each.stat().st_size for each in files)
    assert (result.files, result.size) == (3, size)
    assert json.loads(about.read_text())["encoding"] == "UTF8"
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        counted = [cursor.execute(f'SELECT count(*) FROM "{each}"').fetchone()[0] for each in tables]
    assert (result.tables, result.rows) == (len(tables), sum(counted))
    pg_restore = find_postgresql_program("pg_restore")
    sql = subprocess.run([pg_restore, "--file=-", "--table=engine_test", str(file)], capture_output=True, check=True)
    assert sql.stdout.count(b"x" * 100) == 1000
    with opened(repository.store, FOLDER, point, tmp_path / "cache") as tree:
        header = tree.header
        assert (header.engine, header.source_kind, header.policy) == ("pg_dump", "postgresql", "nightly")
        assert header.complete
    if not repository.is_restic:
        assert result.added == size
        assert roles.stat().st_size <= seen[-1].bytes_done <= size
        assert (result.new, result.changed, result.unchanged, result.removed, result.read) == (None,) * 5
        stored = repository.directory / layout.files_path(FOLDER) / point
        assert {each.stat().st_mode & 0o777 for each in stored.iterdir()} == {0o600}
        manifest = repository.directory / layout.manifest_path(FOLDER, point)
        assert [(each.path, each.size, each.digest) for each in manifests.read(manifest)] == [
            (each.name, each.stat().st_size, hashlib.sha256(each.read_bytes()).hexdigest()) for each in files
        ]
        assert header.engine_version.startswith("pg_dump (PostgreSQL) ")


def test_a_dump_below_the_least_rate_is_ended_and_removed(
    database: SourceSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WINDOW_SECONDS", 1e-9)
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("LOCK TABLE engine_test IN ACCESS EXCLUSIVE MODE")  # or it may end before it is looked at
        result = dump(database, tmp_path / "copy", least_rate=2**31 - 1)
        cursor.execute("ROLLBACK")
    assert result.verdict is Verdict.SOURCE_FAILED, result.error
    assert "the least rate of its policy is 2,147,483,647" in result.error
    assert dumps_in(tmp_path / "copy") == []


def test_what_a_killed_run_left_is_removed_and_options_of_other_engines_are_passed_over(
    database: SourceSpec, tmp_path: Path
) -> None:
    write_files(tmp_path / "copy/files", **{"20261120T065755Z/database.dump": "half, of a run that was killed"})
    write_files(tmp_path / "copy/manifests", **{"20261120T065755Z.unfinished": ""})
    for _ in range(2):
        dump(database, tmp_path / "copy", options={"transfers": 4})
    with pytest.raises(ValueError, match="unknown option 'transfers'; pg_dump takes no options"):
        engine_for("postgresql").check_options({"transfers": 4})
    assert dumps_in(tmp_path / "copy") == ["20261121T065755Z", "20261121T065755Z-2"]


def test_a_dump_whose_manifest_was_lost_stays(database: SourceSpec, tmp_path: Path) -> None:
    first = dump(database, tmp_path / "copy").snapshot
    (tmp_path / f"copy/manifests/{first}.jsonl.gz").unlink()
    assert dump(database, tmp_path / "copy").snapshot == f"{first}-2"
    assert (tmp_path / f"copy/files/{first}/database.dump").exists()


@pytest.mark.slow
def test_on_a_remote_a_dump_that_wakes_late_makes_no_point(
    database: SourceSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine was frozen for longer than its lease, before it sent what it had dumped."""
    location = Location(str(tmp_path), str(tmp_path))
    woken = Store.put

    def freeze(store: Store, file: Path, path: str) -> None:
        if path.endswith("database.dump"):
            monkeypatch.setattr(Store, "put", woken)
            assert dump(database, tmp_path / "copy", location=location).snapshot == "20261121T065755Z-2"
        woken(store, file, path)

    monkeypatch.setattr(Store, "put", freeze)
    late = dump(database, tmp_path / "copy", location=location)
    assert late.verdict is Verdict.REPOSITORY_FAILED
    assert "another run has taken over" in late.error
    assert dumps_in(tmp_path / "copy") == ["20261121T065755Z-2"]


def test_a_name_that_looks_like_a_connection_string_is_a_name_and_no_refused_password_is_repeated(
    database: SourceSpec, tmp_path: Path
) -> None:
    wrong, odd = {"secret": "wrong-password-entirely"}, ("nowhere", "dbname=postgres host=elsewhere", "--help")
    for fields, text in (
        *(({"path": name}, f"there is no database {name!r}") for name in odd),
        *([(wrong, "refused the credentials")] if database.secret else []),  # this server may ask for none
    ):
        result = dump(dataclasses.replace(database, **fields), tmp_path / "copy")
        assert (result.verdict, text in result.error) == (Verdict.SOURCE_FAILED, True), result
        assert wrong["secret"] not in repr(result)
        assert dumps_in(tmp_path / "copy") == []


@pytest.mark.parametrize("address", ["absent", "/nonexistent", "no-such-host.invalid"])
def test_a_silent_server_is_unavailable(address: str, database: SourceSpec, tmp_path: Path) -> None:
    host = loopback_address() if address == "absent" else address
    silent = dataclasses.replace(database, address=host, port=free_port(loopback_address()))
    result = dump(silent, tmp_path / "copy")
    assert result.verdict is Verdict.UNAVAILABLE, result.error
    assert dumps_in(tmp_path / "copy") == []


def test_a_server_without_a_connection_left_is_unavailable(database: SourceSpec, tmp_path: Path) -> None:
    role = f"crowd_of_{database.path}"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0 PASSWORD 'pa55'")
    try:
        full = dataclasses.replace(database, options={"user": role}, secret="pa55")
        result = dump(full, tmp_path / "copy")
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP ROLE {role}")
    assert (result.verdict, "too many connections" in result.error) == (Verdict.UNAVAILABLE, True), result.error


def test_a_stop_leaves_nothing(database: SourceSpec, tmp_path: Path) -> None:
    stop = threading.Event()
    task = task_for(database, tmp_path / "copy")
    with connection.cursor() as cursor:
        # pg_dump waits for this lock until it is stopped
        cursor.execute("BEGIN")
        cursor.execute("LOCK TABLE engine_test IN ACCESS EXCLUSIVE MODE")
        result = run(task, lambda progress: stop.set(), stop)
        cursor.execute("ROLLBACK")
    assert result.verdict is Verdict.STOPPED
    assert dumps_in(tmp_path / "copy") == []


def test_a_table_that_stays_locked_is_let_go_and_an_application_waits_no_longer_than_that(
    database: SourceSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait for pg_dump through a change of a table that pg_dump has locked already."""
    monkeypatch.setattr(engine, "LOCK_WAIT", "100ms")
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("LOCK TABLE engine_test IN ACCESS EXCLUSIVE MODE")
        result = dump(database, tmp_path / "copy")
        cursor.execute("ROLLBACK")
    assert (result.verdict, "stayed locked" in result.error) == (Verdict.NOT_FOR_NOW, True), result
    assert dumps_in(tmp_path / "copy") == []


@pytest.mark.parametrize(
    ("message", "verdict"),
    [
        (
            'pg_dump: error: Dumping the contents of table "t" failed: PQgetResult() failed.\n'
            "pg_dump: detail: Error message from server: ERROR:  canceling statement due to conflict with recovery",
            Verdict.NOT_FOR_NOW,
        ),
        ("pg_dump: error: FATAL:  terminating connection due to conflict with recovery", Verdict.NOT_FOR_NOW),
        ("pg_dump: error: FATAL:  terminating connection due to administrator command", Verdict.UNAVAILABLE),
        ("pg_dump: error: could not write to file: No space left on device", Verdict.REPOSITORY_FAILED),
        (
            'pg_dump: error: Dumping the contents of table "t" failed: PQgetResult() failed.\n'
            'pg_dump: detail: Error message from server: ERROR:  could not write to file "base/1": '
            "No space left on device",
            Verdict.SOURCE_FAILED,
        ),
        (
            "pg_dump: error: query failed: ERROR:  out of shared memory\n"
            'HINT:  You might need to increase "max_locks_per_transaction".\n'
            "pg_dump: detail: Query was: LOCK TABLE public.t IN ACCESS SHARE MODE",
            Verdict.SOURCE_FAILED,
        ),
    ],
)
def test_a_server_whose_own_disk_is_full_is_not_the_repository(message: str, verdict: Verdict, tmp_path: Path) -> None:
    task = task_for(specification("postgresql", "127.0.0.1", path="shop"), tmp_path)
    with pytest.raises(RunEnded) as ended:
        judge_dump(ProgramEnd(EndReason.EXITED, 1, tuple(message.splitlines())), task)
    assert ended.value.verdict is verdict
