"""Thirty days of finished work, as pruning leaves it: 44 backups of each source, each with its record and its
attempts; and the events of each schedule, most of them answered. One statement a round, so rows are stored in the order
of their time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, models

from jobs.models import Attempt, BacklogRecord
from jobs.states import AttemptOutcome, Status
from proving.bench.fleets.inserting import insert, run
from schedules.models import Trigger
from sources.models import Backup
from sources.planning import AVAILABILITY, BACKUPS, KIND

ROUNDS, DAYS = 44, 30
EVENT_ROUNDS = 30
FLAWED = 20
"""One backup in this many failed once before it succeeded; one event in this many was answered with 503 at first."""

INDEXES = """
SELECT indexname, indexdef
  FROM pg_indexes
 WHERE tablename = ANY(%(tables)s)
   AND NOT EXISTS (SELECT FROM pg_constraint WHERE conname = indexname)
   AND indexdef NOT LIKE 'CREATE UNIQUE%%'
"""


@contextmanager
def without_indexes(*others: type[models.Model]) -> Iterator[None]:
    """Make the indexes of large tables that are not constraints at the end, which takes a third of the time."""
    large: list[type[models.Model]] = [Attempt, Backup, Trigger, *others]
    tables = [model._meta.db_table for model in large]
    with connection.cursor() as cursor:
        cursor.execute(INDEXES, {"tables": tables})
        found = cursor.fetchall()
        for name, _ in found:
            cursor.execute(f'DROP INDEX "{name}"')
        yield
        for _, made in found:
            cursor.execute(made)


def make_history(values: dict[str, Any]) -> None:
    """Make the history, the oldest first."""
    step = f"interval '{DAYS * 24 * 60 // ROUNDS} minutes'"
    began = f"%(now)s::timestamptz - (1 + %(round)s) * {step} + share * interval '30 seconds'"
    records = insert(
        BacklogRecord, "fleet WHERE state NOT IN ('unprotected', 'never') ORDER BY n", values, kind=f"'{KIND}'",
        queue=f"'{BACKUPS}'", subject="'assignment:' || assignment", origin_id="schedule",
        status=str(int(Status.SUCCEEDED)), trigger_at=f"%(now)s::timestamptz - (1 + %(round)s) * {step}",
        payload="jsonb_build_object('assignment', assignment, 'title', name)", inserted_at=began, run_after=began,
        finished_at=f"{began} + (5 + share %% 300) * interval '1 second'", due_day=f"({began})::date",
        attempt=f"CASE WHEN (n + %(round)s) %% {FLAWED} = 0 THEN 3 ELSE 2 END", expected_seconds="5 + share %% 300",
        started_at=f"{began} + interval '1 second'",
    )  # fmt: skip
    made = f"""
WITH made AS (
{records}
RETURNING id, attempt, run_after, finished_at, (payload ->> 'assignment')::bigint AS assignment
), tried AS (
{_attempts(values)}
)
{_backups(values)}
"""
    for number in reversed(range(ROUNDS)):
        run(made, values | {"round": number})


def _attempts(values: dict[str, Any]) -> str:
    handed, failed, done = (int(each) for each in
                            (AttemptOutcome.HANDOFF, AttemptOutcome.FAILED, AttemptOutcome.SUCCEEDED))  # fmt: skip
    of_each = "made CROSS JOIN LATERAL generate_series(1, made.attempt) AS number"
    return insert(
        Attempt, of_each, values, record_id="made.id", number="number", worker_id="%(worker)s",
        queue=f"CASE WHEN number = 1 THEN '{AVAILABILITY}' ELSE '{BACKUPS}' END",
        started_at="CASE WHEN number = 1 THEN run_after ELSE run_after + interval '1 second' END",
        ended_at="CASE WHEN number < attempt THEN run_after + number * interval '1 second' ELSE finished_at END",
        outcome=f"CASE WHEN number = attempt THEN {done} WHEN number = 1 THEN {handed} ELSE {failed} END",
        error="CASE WHEN number = 2 AND attempt = 3 THEN 'the connection was reset' ELSE '' END",
    )  # fmt: skip


def _backups(values: dict[str, Any]) -> str:
    return insert(
        Backup, "made JOIN fleet USING (assignment)", values, assignment_id="assignment", repository_id="repository",
        record_id="made.id", attempt="made.attempt", engine="'rclone'", started_at="run_after",
        ended_at="finished_at", size="share * 1000000", files="share * 10", new="share %% 5", changed="share %% 7",
        unchanged="share * 10", removed="share %% 3", read="share * 1000", added="share * 1000",
        snapshot="to_char(run_after AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24-MI-SS\"Z\"')",
    )  # fmt: skip


def make_events(values: dict[str, Any]) -> None:
    """Make two events a day for each schedule."""
    at = "(date_trunc('hour', %(now)s::timestamptz) - (1 + %(round)s) * interval '1 day')"
    number = "generate_series(1, 2) AS number, generate_series(1::bigint, %(schedules)s) AS n"
    state = f"((n * 31 + number * 7 + %(round)s) %% {FLAWED * 5})"
    ended = f"{at} + number * interval '1 second'"
    records = insert(
        BacklogRecord, number, values, kind="'http_callback'", queue="'callbacks'", origin_id="%(first)s + n",
        subject=f"(%(first)s + n) || '-' || to_char({at} AT TIME ZONE 'UTC', 'YYYYMMDD\"T\"HH24MISS\"Z\"') "
        "|| '-' || number",
        status=f"CASE WHEN {state} = 0 THEN {int(Status.FAILED)} ELSE {int(Status.SUCCEEDED)} END", trigger_at=at,
        payload="jsonb_build_object('schedule', 'schedule ' || n, 'number', number, 'endpoint', "
        "(%(endpoints)s::bigint[])[1 + n %% 5])",
        inserted_at=at, run_after=at, finished_at=ended,
        attempt=f"CASE WHEN {state} %% {FLAWED} = 0 THEN 2 ELSE 1 END",
        last_error=f"CASE WHEN {state} = 0 THEN 'answered 503 Service Unavailable' ELSE '' END",
    )  # fmt: skip
    attempts = insert(
        Attempt, "made CROSS JOIN LATERAL generate_series(1, made.attempt) AS number", values, record_id="made.id",
        number="number", worker_id="%(worker)s", queue="'callbacks'", started_at="run_after", ended_at="finished_at",
        outcome=f"CASE WHEN status = {int(Status.SUCCEEDED)} AND number = attempt THEN 1 ELSE 2 END",
        facts=f"jsonb_build_object('status', CASE WHEN status = {int(Status.SUCCEEDED)} AND number = attempt "
        "THEN 200 ELSE 503 END)",
    )  # fmt: skip
    triggers = insert(
        Trigger, "generate_series(1::bigint, %(schedules)s) AS n", values, schedule_id="%(first)s + n", trigger_at=at,
        seen_at=at, emitted_at=at, events="2", begins_at=at, finished_at=f"{at} + interval '1 minute'",
    )  # fmt: skip
    returning = "RETURNING id, attempt, status, run_after, finished_at"
    for number_of in reversed(range(EVENT_ROUNDS)):
        run(f"WITH made AS (\n{records}\n{returning}\n)\n{attempts}", values | {"round": number_of})
        run(triggers, values | {"round": number_of})
