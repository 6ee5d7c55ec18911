"""Restores that workers run: asked for over the API, done as records, noted in a row and in the log."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from jobs import backlog, periodic, rescuing
from jobs.backlog import cancelling
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Decision
from jobs.states import Status
from sources.models import Repository, Restore, Source
from tests.api.asking import fields_of
from tests.backups.restores.asking import ask, work
from tests.backups.restores.databases_here import alone_with_roles, database_of_the_tests
from tests.engines.peers import back_up as dump
from tests.sources.factories import make_assignment, make_policy, make_source, policy_into
from tests.sources.worker_process import worker_process
from tests.storage.building import ASSIGNMENT, Built, picture
from tests.waiting import eventually

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("made_by_hand")]


@pytest.fixture
def built(tmp_path: Path, settings: Any) -> Built:
    settings.VAR_DIR, settings.RESTORE_FOLDERS = tmp_path / "var", [tmp_path / "allowed"]
    built = Built(tmp_path / "built")
    make_assignment(policy_into(built.folder / "repository", "disk"), make_source(name="nas"), directory=ASSIGNMENT)
    built.write("docs/a", "first")
    built.write("docs/b", "first")
    built.back_up()
    return built


@pytest.mark.own_process
def test_a_restore_is_asked_for_over_the_api_and_run_by_a_worker(built: Built, tmp_path: Path) -> None:
    to = tmp_path / "allowed" / "to"
    answer = ask(target=str(to), paths=["docs/a"])
    assert answer.status_code == 201, answer.content
    record = BacklogRecord.objects.get(pk=answer.json()["record_id"])
    assert (record.kind, record.queue, record.status) == ("restore", "restores", Status.READY)

    restore = work()

    assert (to / "docs/a").read_text() == "first"
    assert (restore.outcome, restore.files, restore.size, restore.point) == ("succeeded", 1, 5, built.points[0])
    log = Decision.objects.filter(kind="restore").order_by("pk").values_list("what", flat=True)
    assert list(log) == ["asked for", "began", "succeeded"]


def test_a_target_is_where_links_led_when_it_was_asked_for(built: Built, tmp_path: Path, settings: Any) -> None:
    """An account that may write to a folder above it puts a link there afterwards, or asks for one in the source."""
    allowed, elsewhere = tmp_path / "allowed", tmp_path / "elsewhere"
    for each in (allowed / "real", elsewhere):
        each.mkdir(parents=True)
    (allowed / "link").symlink_to(allowed / "real")
    assert ask(target=str(allowed / "link/to"), paths=["docs/a"]).status_code == 201
    (allowed / "link").unlink()
    (allowed / "link").symlink_to(elsewhere)
    assert work().outcome == "succeeded"
    assert (allowed / "real/to/docs/a").exists()

    assert ask(target=str(allowed / "real/next"), paths=["docs/a"]).status_code == 201
    (allowed / "real").rename(allowed / "kept")
    (allowed / "real").symlink_to(elsewhere)
    restore = work()
    assert (restore.outcome, "real is a link" in restore.error) == ("failed", True)

    settings.FOLDERS = [allowed]
    Source.objects.update(kind="local", path=str(allowed / "kept"))
    (allowed / "kept/in").symlink_to(elsewhere)
    assert ask(to="source", target="in/it", paths=["docs/a"]).status_code == 201
    restore = work()
    assert (restore.outcome, "in is a link" in restore.error) == ("failed", True)
    assert list(elsewhere.iterdir()) == []


def test_a_restore_that_is_cancelled_while_it_waits_is_under_way_no_more(built: Built, tmp_path: Path) -> None:
    for name in ("one", "two"):
        ask(target=str(tmp_path / "allowed" / name))
    one, two = Restore.objects.order_by("pk")
    cancelling.cancel([one.record_id or 0])
    periodic.run_minutely()
    one.refresh_from_db()
    two.refresh_from_db()
    assert (one.outcome, one.error, one.ended_at is None) == ("cancelled", "cancelled while it waited", False)
    assert (two.outcome, two.ended_at) == ("", None)


@pytest.mark.own_process
def test_a_restore_that_is_stopped_goes_on_with_its_next_run(built: Built, tmp_path: Path) -> None:
    to = tmp_path / "allowed" / "to"
    ask(target=str(to))
    assert work(is_stopped=True).outcome == ""
    assert work().outcome == "succeeded"
    assert picture(to) == picture(built.source)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("shop.db", "your account may name folders below"),
        ("../shop2.db", "must be the name of a new database, or of a file next to the source's"),
        ("shop2.db", "your account may name folders below"),
    ],
)
def test_a_sqlite_database_is_restored_into_the_folder_of_the_old_one_only(
    built: Built, target: str, message: str
) -> None:
    Source.objects.update(kind="sqlite", path="/opt/shop/shop.db")
    assert message in fields_of(ask(to="database", target=target))["target"]


@pytest.mark.own_process
def test_what_cannot_be_restored_is_no_retry(built: Built, tmp_path: Path) -> None:
    to = tmp_path / "allowed" / "to"
    to.mkdir(parents=True)
    (to / "mine").write_text("mine")
    ask(target=str(to))

    restore = work()

    assert (restore.outcome, list(to.iterdir())) == ("failed", [to / "mine"])
    assert "is not empty: it holds mine" in restore.error
    assert BacklogRecord.objects.get(pk=restore.record_id).status == Status.CANCELLED


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"source": "nsa", "target": "/x"}, "source", "there is no source 'nsa'; did you mean 'nas'?"),
        ({"target": "{tmp}/allowed/to", "repository": "dsik"}, "repository", "there is no repository 'dsik'; did you"),
        ({"target": "/etc"}, "target", "your account may name folders below"),
        ({"target": "/home/ann/.ssh"}, "target", "your account may name folders below"),
        ({"target": "{tmp}/built/repository/new"}, "target", "which holds backups"),
        ({"target": "{tmp}/allowed/../../etc"}, "target", "must be the absolute path"),
        ({"target": "{tmp}/allowed/to", "at": "2026-11-19"}, "at", "the first one is 20261120T060000Z"),
        ({"target": "{tmp}/allowed/to", "paths": ["../a"]}, "paths", "leads out of the source"),
        ({"to": "database", "target": "shop2"}, "to", "is restored to a folder, or to its own path"),
    ],
)
def test_what_cannot_be_is_a_sentence(
    built: Built, tmp_path: Path, body: dict[str, Any], field: str, message: str
) -> None:
    if "target" in body:
        body = body | {"target": body["target"].format(tmp=tmp_path)}
    assert message in fields_of(ask(**body))[field]
    assert not Restore.objects.exists()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_killed_worker_leaves_a_restore_that_the_next_one_ends(built: Built, tmp_path: Path) -> None:
    to = tmp_path / "allowed" / "to"
    for number in range(8):  # the kill has to come before the last one
        built.write(f"large {number}", os.urandom(20_000_000))
    point = built.back_up()
    assert ask(target=str(to)).status_code == 201
    with worker_process("restores", tmp_path, BACKUPSCHED_VAR=str(tmp_path / "var")):
        eventually(lambda: list(to.glob(f".restore-{point}.*.unfinished")))
    assert picture(to) != picture(built.source)

    rescuing.rescue(now=database_clock() + timedelta(hours=1))
    backlog.retry(BacklogRecord.objects.filter(kind="restore").values_list("pk", flat=True))
    restore = work()

    assert (restore.outcome, restore.error) == ("succeeded", "")
    assert picture(to) == picture(built.source)


SLOWS, KEEPS = "restore_slows_down", "restore_keeps_a_table"
"""A database that slows the restore down while it is there, and a role. A role for both would be in the dump of a test
beside this one, whose restore makes it again."""
TABLE = (
    f"CREATE ROLE {KEEPS} VALID UNTIL '2040-01-01'",
    "CREATE FUNCTION slow(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN IF EXISTS "
    f"(SELECT 1 FROM pg_catalog.pg_database WHERE datname = '{SLOWS}') "
    "THEN PERFORM pg_catalog.pg_sleep(600); END IF; RETURN n; END$$",
    "CREATE TABLE kept AS SELECT n FROM generate_series(1, 10) n",
    f"ALTER TABLE kept OWNER TO {KEEPS}",
    "CREATE INDEX kept_slow ON kept (slow(n))",
)
GONE = ("DROP TABLE IF EXISTS kept", "DROP FUNCTION IF EXISTS slow", f"DROP ROLE IF EXISTS {KEEPS}")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_half_a_database_of_a_killed_worker_is_made_anew_by_the_next_one_with_roles_that_are_gone(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server continues with the statements of the killed process."""
    source = database_of_the_tests()
    if source.secret:
        monkeypatch.setenv("BACKUP_SECRET_SHOP", source.secret)
    facts = {name: getattr(source, name) for name in ("kind", "address", "port", "path", "options")}
    row = make_source(name="shop", secret="env:BACKUP_SECRET_SHOP" if source.secret else "", **facts)
    assignment = make_assignment(make_policy(repository=Repository.objects.get()), row, directory="shop")
    with alone_with_roles(), connection.cursor() as server:
        try:
            for statement in TABLE:
                server.execute(statement)
            assert dump(source, built.folder / "repository" / assignment.directory).snapshot
            for statement in (*GONE, f"CREATE DATABASE {SLOWS} TEMPLATE template0"):
                server.execute(statement)
            assert ask(source="shop", to="database", target="shop3").status_code == 201
            with worker_process("restores", tmp_path, BACKUPSCHED_VAR=str(tmp_path / "var")) as worker:
                eventually(lambda: at_work_in(server, "shop3.unfinished") == ["CREATE INDEX kept"])
                worker.kill()
            assert at_work_in(server, "shop3.unfinished") == ["CREATE INDEX kept"]
            server.execute(f"DROP DATABASE {SLOWS}")
            rescuing.rescue(now=database_clock() + timedelta(hours=1))
            backlog.retry(BacklogRecord.objects.filter(kind="restore").values_list("pk", flat=True))
            restore = work()
            assert (restore.outcome, restore.error) == ("succeeded", "")
            assert [each.partition(": ")[0] for each in restore.not_set] == ["owners"]
            server.execute("SELECT count(*) FROM pg_roles WHERE rolname ^@ 'backupsched_' AND rolcanlogin")
            assert server.fetchall() == [(0,)], "that of the killed one is gone, too"
            server.execute("SELECT datname FROM pg_database WHERE datname LIKE 'shop3%'")
            assert server.fetchall() == [("shop3",)]
            with psycopg.connect(**connection.get_connection_params() | {"dbname": "shop3"}) as restored:
                kept = "SELECT tableowner, rolvaliduntil FROM pg_tables, pg_roles WHERE tableowner = rolname"
                [(owner, until)] = restored.execute(f"{kept} AND tablename = 'kept'").fetchall()
            assert (owner, until.year) in ((KEEPS, 2039), (KEEPS, 2040))
        finally:
            for name in ("shop3.unfinished", "shop3", SLOWS):
                server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            for statement in GONE:
                server.execute(statement)


def at_work_in(server: Any, database: str) -> list[str]:
    server.execute("SELECT left(query, 17) FROM pg_stat_activity WHERE datname = %s AND state = 'active'", [database])
    return [query for (query,) in server.fetchall()]
