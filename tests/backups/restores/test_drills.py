"""Drills: what was backed up is restored into scratch space and compared, and what they find is shown."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from backups.restores import drills
from backups.upkeep import checks, copies
from engines.base import SourceSpec
from engines.restores import drilling
from engines.restores.scratch import Scratch
from jobs.models import BacklogRecord, Decision
from jobs.outcomes import Succeeded
from jobs.states import Status
from sources.models import Assignment, Backup, CheckRound, Copy, Policy, Repository
from sources.planning import AVAILABILITY, BACKUPS
from storage import layout
from storage.points.checking import GONE
from storage.points.manifests import Entry
from tests.api.asking import Program, make_user
from tests.backups.points_to_remove import add_backup
from tests.backups.restores.asking import NOW, drilled
from tests.backups.restores.databases_here import database_of_the_tests
from tests.engines.peers import back_up as dump
from tests.jobs.backlog.changes import held_up
from tests.sources.factories import claim, make_assignment, make_policy, make_source, policy_into
from tests.sources.made_by_hand import take_over
from tests.sources.worker_process import worker_process
from tests.storage.building import ASSIGNMENT, FILES, Built
from tests.threads import PATIENCE, another_connection, impatience
from tests.waiting import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("made_by_hand")]


@pytest.fixture
def var(scratch: Path, settings: Any) -> Path:
    settings.VAR_DIR = scratch
    return scratch


@pytest.fixture
def built(tmp_path: Path) -> Built:
    return Built(tmp_path / "built")


def assigned(built: Built, point: str, **source: Any) -> Assignment:
    made = make_assignment(
        policy_into(built.folder / "repository", "disk"),
        make_source(name="nas", **source),
        directory=ASSIGNMENT,
        inserted_at=NOW - timedelta(days=30),
    )
    add_backup(made, point, 1)
    return made


@pytest.mark.own_process
def test_a_drill_proves_the_newest_point(built: Built, var: Path, admin_client: Client) -> None:
    for name in ("docs/a", "docs/b"):
        built.write(name, "first")
    (built.source / "docs/link").symlink_to("a")
    built.write("read-only/c", "", mode=0o400)
    (built.source / "read-only").chmod(0o500)
    point = built.back_up()
    row = assigned(built, point)
    assert drills.plan(NOW) == 1
    assert isinstance(drilled(), Succeeded)
    row.refresh_from_db()
    assert (row.proved_at, row.proved_point, row.drill_error) == (NOW, point, "")
    assert (row.drill_facts["files"], row.drill_facts["size"]) == (4, 10)
    assert "4 of 4 files" in Decision.objects.get(what="proved").text
    assert list((var / "drills").iterdir()) == []
    old = built.last["docs/a"]._replace(why="locked", as_of=point)
    built.back_up(excepted=[old, Entry("new", size=5, why="permission denied")])
    done = drilling.drill(built.store, ASSIGNMENT, Scratch(folder=str(var / "drills"), reserve=0.0))
    assert (done.error, done.files, done.of_files, done.lost, done.missing_files, done.old_files) == ("", 4, 4, 0, 1, 1)
    assert drills.as_text(done).partition("came back whole")[2] == (
        "; not in this point, since they could not be read: new: permission denied; "
        "1 file as of 2026-11-20 06:00 UTC, since it could not be read or copied later: docs/a"
    )
    assert [drills.plan(NOW + timedelta(days=days)) for days in (29, 31)] == [0, 1], "every 30 days"
    out = StringIO()
    call_command("restores", "drill", "--json", stdout=out)
    [shown] = json.loads(out.getvalue())
    assert (shown["source"], shown["proved_point"]) == ("nas", point)
    for page in (f"assignment/{row.pk}/change/", "assignment/", "source/", f"source/{row.source_id}/change/"):
        assert "roved" in admin_client.get(f"/admin/sources/{page}").content.decode(), page


def test_drills_after_a_clock_that_was_ahead_prove_the_last_point_where_it_is(
    built: Built, var: Path, tmp_path: Path
) -> None:
    """Points after that run have later names, earlier times and, here, another repository."""
    later = Built(tmp_path / "later")
    ahead = "20270301T090000Z"
    built.write("a", "of that run")
    built.point(ahead)
    shutil.copytree(built.source, built.location.at(f"{FILES}/{ahead}"))
    row = assigned(built, ahead)
    Policy.objects.update(repository=Repository.objects.create(name="new disk", location=later.location.root))
    row.refresh_from_db()
    for number in (2, 3):
        later.write("a", f"of run {number}")
        later.point(name := f"{ahead}-{number}")
        shutil.copytree(later.source, later.location.at(f"{FILES}/{name}"))
        add_backup(row, name, number)
        at = NOW + timedelta(hours=number)
        Backup.objects.filter(snapshot=name).update(started_at=at, ended_at=at)
        take_over(row, row.policy.repository)
        assert drills.drill_now([row.pk], now=NOW) == 1
        assert isinstance(drilled(), Succeeded)
        row.refresh_from_db()
        assert (row.proved_point, row.drill_error) == (name, "")


def test_an_older_point_proves_nothing_of_the_newest_one_that_is_gone(built: Built, var: Path) -> None:
    """A disk that was put back to an earlier state."""
    built.write("docs/a", "first")
    first = built.back_up()
    row = assigned(built, first)
    gone = layout.name_of(layout.instant_of(first) + timedelta(hours=1))
    add_backup(row, gone, 2)
    assert drills.plan(NOW) == 1
    assert isinstance(drilled(), Succeeded)
    row.refresh_from_db()
    assert (row.proved_at, row.drill_error) == (None, f"point {gone}: {GONE}")


def test_what_this_host_cannot_prove_is_neither_proved_nor_doubtful(built: Built) -> None:
    row = assigned(built, layout.name_of(NOW))
    assert drills.plan(NOW) == 1
    record = claim(AVAILABILITY, NOW)
    lacks = "this host lacks EXTENSION uuid-ossp, which public.things need"
    for error, expected in (("table public.things has 0 rows", "not restorable"), ("", "not proved here")):
        done = drilling.DrillResult(layout.name_of(NOW), 2, 2, tables={"a": 1}, error=error, not_here=lacks)
        drills.write_down(record, Succeeded(done), NOW)
        row.refresh_from_db()
        assert (row.proved_at, bool(row.drill_error)) == (None, bool(error))
        assert Decision.objects.filter(what=expected).count() == 1
    assert lacks in Decision.objects.get(what="not proved here").text


def test_a_person_drills_now_whatever_the_window(built: Built) -> None:
    row = assigned(built, layout.name_of(NOW))
    row.policy.window = [{"days": "sat", "start": "01:00", "end": "02:00"}]  # NOW is a Friday
    row.policy.save()
    assert drills.plan(NOW) == 1
    assert BacklogRecord.objects.get().status == Status.WAITING
    program = Program(make_user("change_backlogrecord", "view_assignment"), scopes=("operate",))
    assert program.post(f"assignments/{row.pk}/drill").json() == {"moved": 1}
    assert BacklogRecord.objects.get().status == Status.READY
    assert program.post(f"assignments/{row.pk}/drill").status_code == 409
    with pytest.raises(CommandError, match="on the backlog already"):
        call_command("restores", "drill", "nas")
    row.backups.all().delete()
    BacklogRecord.objects.all().delete()
    assert (drills.drill_now([row.pk]), drills.plan(NOW + timedelta(days=99))) == (0, 0), "it has no backup"


@pytest.mark.parametrize("ahead", [timedelta(minutes=5), timedelta(days=300)], ids=["a little", "a lot"])
def test_what_was_planned_by_a_clock_that_was_ahead_holds_up_no_drill_check_or_copy(
    built: Built, ahead: timedelta
) -> None:
    row = assigned(built, layout.name_of(NOW))
    row.policy.copy_to = Repository.objects.create(name="second", location=str(built.folder / "second"))
    row.policy.save()
    planned = NOW + ahead
    Assignment.objects.update(drill_planned_at=planned, to_copy_since=NOW - timedelta(hours=1))
    CheckRound.objects.create(assignment=row, planned_at=planned)
    Copy.objects.create(assignment=row, repository=row.policy.copy_to, planned_at=planned)
    due = int(ahead > timedelta(days=1))
    for _ in range(2):
        assert [module.plan(NOW) for module in (drills, checks, copies)] == [due] * 3
        due = 0


def test_two_who_ask_for_drills_lock_in_one_order(built: Built) -> None:
    first = assigned(built, layout.name_of(NOW))
    second = make_assignment(first.policy, inserted_at=NOW)
    add_backup(second, layout.name_of(NOW), 2)
    Assignment.objects.filter(pk=first.pk).update(policy=make_policy())  # so it lies behind the other one
    with another_connection() as other:
        other.execute("SELECT FROM sources_assignment WHERE id = %s FOR NO KEY UPDATE", [first.pk])
        with held_up(lambda: drills.drill_now([first.pk, second.pk]), other) as drilling, impatience():
            assert Assignment.objects.select_for_update(nowait=True).filter(pk=second.pk).update(failures=1) == 1
            other.commit()
            assert drilling.result(PATIENCE) == 2


def test_of_much_a_sample_is_drilled(built: Built, var: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        built.write(f"{number}", "x" * number)
    store, scratch = built.store, Scratch(str(var / "drills"), 1)
    built.back_up()
    monkeypatch.setattr(drilling, "ALL_FILES", 10)
    monkeypatch.setattr(drilling, "SAMPLE_FILES", 5)
    done = drilling.drill(store, ASSIGNMENT, scratch)
    assert (done.files, done.of_files, done.error) == (5, 20, "")
    for number in range(20):
        (built.source / f"{number}").unlink()
        (built.source / f"{number}").symlink_to("of links alone")
    built.back_up()
    done = drilling.drill(store, ASSIGNMENT, scratch)
    assert (done.files, done.of_files, done.error) == (5, 20, "")


@pytest.mark.slow
def test_a_flipped_byte_is_named_with_its_point(built: Built, var: Path, admin_client: Client) -> None:
    for name in ("docs/a", "docs/b"):
        built.write(name, "first")
    point = built.back_up()
    row = assigned(built, point)
    built.stored("docs/b").write_text("firsu")
    assert drills.drill_now([row.pk], by="ann", now=NOW) == 1
    assert isinstance(drilled(), Succeeded)
    row.refresh_from_db()
    assert row.proved_at is None
    assert f"point {point}: 1 of 2 files did not come back as listed in its manifest: docs/b: " in row.drill_error
    assert row.drill_error in Decision.objects.get(what="not restorable").text
    assert "docs/b" in admin_client.get(f"/admin/sources/source/{row.source_id}/change/").content.decode()
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--json", stdout=out)
    [found] = [each for each in json.loads(out.getvalue()) if each["name"] == "drills"]
    assert point in found["what"]
    assert drills.plan(NOW + timedelta(hours=25)) == 1, "it is tried again the next day"


@pytest.fixture
def database() -> Iterator[SourceSpec]:
    # roles are the whole server's: a restore that is tested beside this one creates those that it found missing
    role = f"drill_reader_{os.urandom(4).hex()}"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {role}")
        cursor.execute("CREATE EXTENSION pg_stat_statements")
        cursor.execute(
            'CREATE TABLE "drill ""test" AS SELECT n, repeat(\'x\', 100) AS "text (" FROM generate_series(1, 1000) n'
        )
        cursor.execute('ALTER TABLE "drill ""test" ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY')
        cursor.execute(f'CREATE POLICY readers ON "drill ""test" TO {role} USING (true)')
        cursor.execute("CREATE TABLE drill_empty (n integer)")
    yield database_of_the_tests()
    with connection.cursor() as cursor:
        cursor.execute('DROP TABLE "drill ""test", drill_empty')
        cursor.execute(f"DROP ROLE {role}")
        cursor.execute("DROP EXTENSION pg_stat_statements")


def postmaster_in(scratch: Path) -> str:
    """Its process's id, once that is written; empty before, and when it has ended."""
    with suppress(OSError):
        for file in scratch.glob("*/data/postmaster.pid"):
            return file.read_text().partition("\n")[0]
    return ""


@pytest.mark.slow
def test_a_database_is_counted_in_a_server_of_its_own_also_after_a_drill_was_killed(
    built: Built, var: Path, database: SourceSpec, tmp_path: Path
) -> None:
    result = dump(database, built.folder / "repository" / ASSIGNMENT)
    row = assigned(built, result.snapshot, kind="postgresql", address="db", path="shop")
    take_over(row, row.policy.repository)
    drills.drill_now([row.pk])
    scratch = var / "postgres-drills"
    with worker_process(f"{AVAILABILITY},{BACKUPS}", tmp_path, BACKUPSCHED_VAR=str(var)) as worker:
        pid = int(eventually(lambda: postmaster_in(scratch)))
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    eventually(lambda: not Path(f"/proc/{pid}").exists())
    assert list(scratch.iterdir())
    BacklogRecord.objects.all().delete()
    assert drills.drill_now([row.pk], now=NOW) == 1
    outcome = drilled()
    assert isinstance(outcome, Succeeded), outcome
    row.refresh_from_db()
    assert (row.drill_error, row.proved_point) == ("", result.snapshot)
    assert "EXTENSION pg_stat_statements: 42501 insufficient privilege: CREATE" in row.drill_facts["notes"][0]
    tables = row.drill_facts["tables"]
    assert (tables['public."drill ""test"'], tables["public.drill_empty"]) == (1000, 0)
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_a_dump_that_does_not_load_is_no_proof(built: Built, var: Path, database: SourceSpec) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION drill_least() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM drill_empty'"
        )
        cursor.execute("CREATE TABLE drill_checked (n integer CHECK (n >= drill_least()))")
        cursor.execute("INSERT INTO drill_checked VALUES (1), (2)")
    try:
        result = dump(database, built.folder / "repository" / ASSIGNMENT)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE drill_checked")
            cursor.execute("DROP FUNCTION drill_least")
    row = assigned(built, result.snapshot, kind="postgresql", address="db", path="shop")
    drills.drill_now([row.pk], now=NOW)
    drilled()
    row.refresh_from_db()
    assert row.proved_at is None
    assert "TABLE DATA public.drill_checked: 42P01 undefined table" in row.drill_error
    assert "table public.drill_checked has 0 rows, and the dump holds 2" in row.drill_error
