"""The backlog is a table into which other programs insert: what nobody can read is refused, or set aside and named."""

import importlib
import re
from datetime import date, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.db import IntegrityError, connection, models, transaction
from django.db.migrations import RunSQL

from jobs import order, rescuing, tick
from jobs.clock import database_clock
from jobs.instants import FIRST, LAST
from jobs.models import Attempt, BacklogRecord, Decision
from jobs.outcomes import Succeeded
from jobs.settling import settle
from jobs.states import AttemptOutcome, Status
from sources.domain.due import due_day
from sources.domain.retention import Keep, Point
from tests.factories import NOON, claim_ready, make_record, make_worker

pytestmark = pytest.mark.django_db

WRITTEN_BY_STATEMENTS = {"Attempt", "Decision", "AttemptEntry"}
"""Rows of the queue's own statements, by the database's clock; a check would cost each settle."""
READ_ON_PAGES = {"DayTotal", "RateCount", "ApiToken", "IdempotencyKey"}

UNREADABLE = ["infinity", "-infinity", "10000-01-01", "0044-03-15 BC"]


def write(sql: str, *values: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)


def test_every_table_that_a_worker_reads_checks_all_of_its_instants_and_days() -> None:
    for model in apps.get_models():
        is_ours = (settings.BASE_DIR / model._meta.app_label).is_dir()
        if not is_ours or model.__name__ in WRITTEN_BY_STATEMENTS | READ_ON_PAGES:
            continue
        columns = {each.name for each in model._meta.local_fields if isinstance(each, models.DateField)}
        checks = [each for each in model._meta.constraints if each.name.startswith("every_instant_of_")]
        assert bool(checks) == bool(columns), model
        checked = {name for check in checks for name in re.findall(r"\bF\((\w+)\)", repr(check.condition))}
        assert checked == columns, model


@pytest.mark.parametrize("column", ["closes_at", "run_after", "rank_day", "due_day", "tried_at", "trigger_at"])
def test_a_record_takes_no_instant_and_no_day_that_cannot_be_read(column: str) -> None:
    record = make_record()
    for value in UNREADABLE:
        with pytest.raises(IntegrityError, match="every_instant_of_a_record_is_readable"), transaction.atomic():
            write(f"UPDATE jobs_backlogrecord SET {column} = %s", value)
    for value in ("9999-12-31", "0001-01-01"):
        write(f"UPDATE jobs_backlogrecord SET {column} = %s", value)
        BacklogRecord.objects.get(pk=record.pk)
        tick.look(now=NOON)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Pacific/Kiritimati", "America/Los_Angeles", "UTC"])
def test_the_ends_of_the_calendar_have_a_day_in_every_zone(zone: str) -> None:
    """9999-12-31 23:59:59 UTC is of the year 10000 in zones east, and the tables take it."""
    for instant, day in ((LAST, date.max), (FIRST, date.min)):
        assert abs(due_day(instant, zone) - day) <= timedelta(days=1)
        order.place_after_an_answer(None, 1, instant, None, zone=zone, now=LAST)
        points = [Point("99991231T235959Z", instant), Point("20260302T120000Z", NOON)]
        assert len(Keep(daily=2).apply(points, zone)) == 2


@pytest.mark.parametrize(
    ("table", "column"),
    [("schedules_schedule", "next_trigger_at"), ("sources_source", "paused_until"), ("jobs_breaker", "probe_at")],
)
def test_so_do_the_other_tables(table: str, column: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s::regclass "
                       "AND conname LIKE 'every_instant_of_%%'", [table])  # fmt: skip
        [(definition,)] = cursor.fetchall()
    assert column in definition


def test_what_was_there_before_is_mended_by_the_migration_and_means_the_same() -> None:
    migration = importlib.import_module("jobs.migrations.0003_readable_instants").Migration
    constraint = next(each for each in BacklogRecord._meta.constraints if each.name.startswith("every_instant"))
    fine = make_record(closes_at=None, rank_day=date(2026, 3, 2))
    endless, closed = make_record(), make_record()
    write("SET CONSTRAINTS ALL IMMEDIATE")
    with connection.schema_editor() as editor:
        editor.remove_constraint(BacklogRecord, constraint)
    write("UPDATE jobs_backlogrecord SET closes_at = 'infinity', rank_day = '12000-01-01' WHERE id = %s", endless.pk)
    write("UPDATE jobs_backlogrecord SET closes_at = '-infinity' WHERE id = %s", closed.pk)
    for operation in migration.operations:
        if isinstance(operation, RunSQL):
            write(operation.sql)
    with connection.schema_editor() as editor:
        editor.add_constraint(BacklogRecord, constraint)
    rows = BacklogRecord.objects.order_by("pk").values_list("pk", "closes_at", "rank_day", "tried_at")
    assert list(rows) == [
        (fine.pk, None, date(2026, 3, 2), None),
        (endless.pk, LAST.replace(microsecond=0), date.max, None),
        (closed.pk, FIRST, None, None),
    ]


def test_a_plain_insert_is_a_record_that_is_ready_and_runs() -> None:
    write("INSERT INTO jobs_backlogrecord (kind, queue, subject, payload) VALUES ('test', 'default', 'one', '{}')")
    write("INSERT INTO jobs_backlogrecord (kind, queue, subject) VALUES ('test', 'default', 'two')")
    claimed = claim_ready(now=None)
    assert [(each.subject, each.payload, each.attempt, each.lane) for each in claimed] == [
        ("one", {}, 1, 0), ("two", {}, 1, 0),
    ]  # fmt: skip
    settle([(each, Succeeded()) for each in claimed])
    assert BacklogRecord.objects.filter(status=Status.SUCCEEDED).count() == 2


PAYLOADS = {
    "a number of 5,000 digits": '{"n": ' + "9" * 5000 + "}",
    "5,000 brackets": "[" * 5_000 + "]" * 5_000,
    "a list": '["assignment"]',
    "a text": '"assignment"',
    "null": "null",
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_a_payload_that_nobody_can_read_is_set_aside_and_named_and_what_is_beside_it_runs(payload: str) -> None:
    bad, good = make_record(), make_record()
    write("UPDATE jobs_backlogrecord SET payload = %s::jsonb WHERE id = %s", payload, bad.pk)
    claimed = claim_ready()
    assert [each.id for each in claimed] == [good.pk]
    row = BacklogRecord.objects.defer("payload").get(pk=bad.pk)
    assert (row.status, row.leased_by_id) == (Status.FAILED, None)
    assert row.last_error.startswith("its payload cannot be read, and no handler was asked: ")
    assert list(Attempt.objects.values_list("record_id", "number", "outcome")) == [(bad.pk, 1, AttemptOutcome.FAILED)]
    assert Decision.objects.get(what="set aside").subject == bad.subject


def test_one_that_a_worker_left_running_holds_up_no_rescue() -> None:
    worker = make_worker()
    bad, good = (make_record(Status.RUNNING, worker=worker) for _ in range(2))
    write("UPDATE jobs_backlogrecord SET payload = '[]' WHERE id = %s", bad.pk)
    write("UPDATE jobs_backlogrecord SET lease_expires_at = now() - interval '1 day'")
    leases = list(BacklogRecord.objects.values_list("id", "lease_expires_at"))
    assert rescuing.rescue(unchanged=leases, now=database_clock() + timedelta(hours=1)) == 1
    statuses = dict(BacklogRecord.objects.values_list("pk", "status"))
    assert statuses == {bad.pk: Status.FAILED, good.pk: Status.WAITING}


def test_the_last_day_of_all_has_none_after_it_to_fail_into() -> None:
    assert order.demoted_by_failure(date.max, NOON.date(), 3) == date.max
    assert order.demoted_by_failure(None, NOON.date(), 3) == date(2026, 3, 5)
