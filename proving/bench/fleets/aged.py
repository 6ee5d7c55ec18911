"""A fleet of any size after thirty days of work: sources in every status, with the history that pruning leaves.

All rows are made by few statements; each value follows from the number of its source, so the same size gives the same
fleet, except for the instant at which it is made. The history of each source: `proving/bench/fleets/month.py`.
"""

from base64 import b64encode
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import connection

from dashboard.models import DayTotal
from delivery.models import Endpoint
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Breaker, Decision, Origin, Worker
from jobs.states import Status, WaitingFor
from proving.bench.fleets import month
from proving.bench.fleets.inserting import insert, run
from schedules.models import Schedule
from sources.models import Assignment, Policy, Repository, Source
from sources.planning import AVAILABILITY, BACKUPS, KIND

REPOSITORIES, PER_POLICY, PER_SCHEDULE = 20, 200, 10
UNITS = 16
LINES = 5
"""Log lines about each source."""

STATES = {
    "failing": 10, "gave up": 5, "overdue": 20, "never": 5, "doubtful": 3, "unprotected": 3, "absent": 40,
    "waiting": 30, "due": 50, "paused": 10, "retired": 10, "protected": 814,
}  # fmt: skip
"""State of a source → how many of a thousand sources have it."""

ERRORS = (
    "sftp: connection reset by peer", "no space left on device", "permission denied: /etc/shadow",
    "the password is wrong", "dial tcp 10.0.0.7:22: i/o timeout", "the repository is locked by another host",
    "pg_dump: error: aborting because of server version mismatch", "quota exceeded", "certificate has expired",
)  # fmt: skip

HOST_KEY = "ssh-ed25519 " + b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0 " + bytes(32)).decode()

# A line for each source. It has the columns of its policy that are needed, so that nothing is joined again.
FLEET = """
CREATE TEMPORARY TABLE fleet AS
SELECT n, n AS source, n AS assignment, policy.id AS policy, policy.schedule_id AS schedule,
       policy.repository_id AS repository, state.name AS state, n * 104729 %% 1000 AS share,
       (ARRAY['sftp', 'local', 'webdav', 'postgresql'])[1 + n %% 4] AS kind,
       'source ' || lpad(n::text, 6, '0') AS name
  FROM generate_series(1::bigint, %(count)s) AS n
  JOIN (SELECT *, row_number() OVER (ORDER BY id) - 1 AS place FROM sources_policy) AS policy
    ON policy.place = n %% %(policies)s
  JOIN unnest(%(states)s::text[], %(from)s::int[], %(to)s::int[]) AS state(name, begins, ends)
    ON n * 7919 %% 1000 >= state.begins AND n * 7919 %% 1000 < state.ends
 ORDER BY n
"""
IN_PLACE = "state <> 'unprotected'"


@dataclass(frozen=True)
class Size:
    """The numbers of rows."""

    sources: int

    @property
    def policies(self) -> int:
        return max(5, self.sources // PER_POLICY)

    @property
    def schedules(self) -> int:
        """The number of event schedules."""
        return max(5, self.sources // PER_SCHEDULE)


def make(sources: int, directory: str) -> None:
    """Make it in an empty database; its repositories are in `directory`."""
    size, now = Size(sources), database_clock().replace(microsecond=0)
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off; SET maintenance_work_mem = '256MB'; SET work_mem = '64MB'")
    _make_policies(size, Path(directory))
    endpoints = [Endpoint.objects.create(name=f"endpoint {n}", url=f"https://{n}.example.org/").pk for n in range(5)]
    ends = [sum(list(STATES.values())[: place + 1]) for place in range(len(STATES))]
    values: dict[str, Any] = {
        "now": now, "count": sources, "policies": size.policies, "schedules": size.schedules, "states": list(STATES),
        "to": ends, "from": [0, *ends[:-1]], "errors": list(ERRORS), "endpoints": endpoints,
    }  # fmt: skip
    run(FLEET, values)
    _make_sources(values)
    _make_schedules(values)
    with month.without_indexes(BacklogRecord, Decision):
        _make_unfinished(values)
        month.make_history(values)
        month.make_events(values)
        _make_log(values)
    _make_days(values)


def _make_policies(size: Size, directory: Path) -> None:
    repositories = []
    for number in range(REPOSITORIES):
        (place := directory / f"repository-{number}").mkdir(parents=True, exist_ok=True)
        repositories.append(Repository.objects.create(name=f"repository {number:02}", location=str(place)))
    for number in range(size.policies):
        schedule = Schedule.objects.create(
            name=f"policy {number:04}", cron=f"{number % 60} {number % 24} * * *", kind=KIND, provider="assignments",
            next_trigger_at=database_clock() + timedelta(hours=12),
        )  # fmt: skip
        window = [{"days": "mon-sun", "start": "00:00", "end": "00:00"}]
        Policy.objects.create(schedule=schedule, repository=repositories[number % REPOSITORIES], window=window)


def _make_sources(values: dict[str, Any]) -> None:
    ago = "%(now)s::timestamptz - interval '{}'"
    run(
        insert(
            Source, "fleet ORDER BY n", values, name="name", kind="kind",
            path="CASE kind WHEN 'local' THEN '/srv/files/' || n WHEN 'postgresql' THEN 'shop' ELSE 'home' END",
            address="CASE kind WHEN 'local' THEN '' WHEN 'webdav' THEN 'https://' || n || '.example.org/dav' "
            "ELSE n || '.example.org' END",
            options="""CASE kind WHEN 'local' THEN '{}'::jsonb ELSE '{"user": "backup"}'::jsonb END""",
            secret="CASE kind WHEN 'local' THEN '' ELSE 'env:BACKUP_SECRET_BENCH' END",  # noqa: S106 - no secret
            host_key=f"CASE kind WHEN 'sftp' THEN '{HOST_KEY}' ELSE '' END",
            hostname="'host-' || n", inserted_at=ago.format("90 days"),
            paused_at=f"CASE WHEN state = 'paused' THEN {ago.format('3 days')} END",
            retired_at=f"CASE WHEN state = 'retired' THEN {ago.format('9 days')} END",
            checked_in_at=f"CASE WHEN n %% 3 = 0 THEN {ago.format('10 minutes')} END",
        ),
        values,
    )  # fmt: skip
    last = f"{ago.format('20 hours')} + share * interval '1 minute'"
    fails = "state IN ('failing', 'gave up')"
    run(
        insert(
            Assignment, f"fleet WHERE {IN_PLACE} ORDER BY n", values, source_id="source", policy_id="policy",
            id="assignment", inserted_at=ago.format("90 days"), directory="'folder-' || n",
            next_backup_at=f"CASE WHEN state IN ('absent', 'waiting', 'due', 'never') THEN {ago.format('1 hour')}"
            f" ELSE {last} + interval '1 day' END",
            last_backup_at=f"CASE WHEN state = 'never' THEN NULL WHEN state = 'overdue' THEN {ago.format('6 days')} "
            f"ELSE {last} END",
            last_backup_for="CASE WHEN state <> 'never' THEN 5 + share END",
            last_backup_size="CASE WHEN state <> 'never' THEN share * 1000000 END",
            failures=f"CASE WHEN {fails} THEN 3 ELSE 0 END",
            first_failure_at=f"CASE WHEN {fails} THEN {ago.format('2 days')} END",
            overdue_since=f"CASE WHEN state = 'overdue' THEN {ago.format('1 day')} END",
            drill_error="CASE WHEN state = 'doubtful' THEN 'a file differs from its manifest' ELSE '' END",
            proved_at=f"CASE WHEN n %% 4 = 0 THEN {ago.format('8 days')} END",
        ),
        values,
    )  # fmt: skip
    run("SELECT setval(pg_get_serial_sequence('sources_assignment', 'id'), %(count)s)", values)


def _make_schedules(values: dict[str, Any]) -> None:
    """Make the event schedules."""
    values["first"] = Origin.objects.order_by("-pk").values_list("pk", flat=True)[0]
    numbers = "generate_series(1::bigint, %(schedules)s) AS n"
    run(insert(Origin, numbers, values, id="%(first)s + n", name="'schedule ' || n"), values)
    run(
        insert(
            Schedule, numbers, values, origin_id="%(first)s + n", cron="'0 * * * *'", kind="'http_callback'",
            event_count="2", endpoint_id="(%(endpoints)s::bigint[])[1 + n %% 5]",
            next_trigger_at="%(now)s::timestamptz + interval '12 hours'",
        ),
        values,
    )  # fmt: skip
    run("SELECT setval(pg_get_serial_sequence('jobs_origin', 'id'), %(first)s + %(schedules)s)", values)


UNFINISHED = {
    "failing": (Status.WAITING, WaitingFor.BACKOFF, "2 hours"),
    "absent": (Status.WAITING, WaitingFor.RECHECK, "10 minutes"),
    "waiting": (Status.WAITING, WaitingFor.WINDOW, "6 hours"),
    "due": (Status.READY, None, "-10 minutes"),
    "never": (Status.READY, None, "-10 minutes"),
}
"""State of a source → status of its record, what it waits for, and when that ends."""


def _make_unfinished(values: dict[str, Any]) -> None:
    """Make the unfinished records, those that gave up, and those that run."""
    worker = Worker.objects.create(name="bench", hostname="bench", pid=1, queues={AVAILABILITY: 200, BACKUPS: UNITS})
    breaker = Breaker.objects.create(
        key="repository:1", title="repository 00", failures=1, last_failure_at=values["now"]
    )
    Breaker.objects.filter(pk=breaker.pk).update(last_error="no space left on device")
    error = "(%(errors)s::text[])[1 + floor(sqrt(share %% 81))::int]"
    of_each = {
        "kind": f"'{KIND}'", "subject": "'assignment:' || assignment", "origin_id": "schedule",
        "payload": "jsonb_build_object('assignment', assignment, 'title', name)", "trigger_at": "%(now)s::timestamptz",
        "inserted_at": "%(now)s::timestamptz - interval '4 hours'", "due_day": "%(now)s::date",
        "rank_day": "%(now)s::date", "expected_seconds": "5 + share",
    }  # fmt: skip
    failed = {
        "failures": "3", "attempt": "3", "last_error": error,
        "first_failure_at": "%(now)s::timestamptz - interval '2 days'",
        "last_failure_at": "%(now)s::timestamptz - interval '1 hour'",
    }  # fmt: skip
    for state, (status, waiting_for, until) in UNFINISHED.items():
        run(
            insert(
                BacklogRecord, f"fleet WHERE state = '{state}'", values, **of_each, queue=f"'{AVAILABILITY}'",
                status=str(int(status)), waiting_for="NULL" if waiting_for is None else str(int(waiting_for)),
                run_after=f"%(now)s::timestamptz + share * interval '1 second' + interval '{until}'",
                **(failed if state == "failing" else {}),
            ),
            values,
        )  # fmt: skip
    values["worker"] = worker.pk
    run(
        insert(
            BacklogRecord, "fleet WHERE state = 'gave up'", values, **of_each, **failed, queue=f"'{BACKUPS}'",
            status=str(int(Status.FAILED)), finished_at="%(now)s::timestamptz - share * interval '1 minute'",
        ),
        values,
    )  # fmt: skip
    run(
        insert(
            BacklogRecord, f"(SELECT * FROM fleet WHERE state = 'protected' ORDER BY n LIMIT {UNITS}) AS fleet",
            values, **of_each, queue=f"'{BACKUPS}'", status=str(int(Status.RUNNING)), attempt="2",
            exclusive_key="'source:' || source", leased_by_id="%(worker)s",
            lease_token="gen_random_uuid()",  # noqa: S106 - SQL
            started_at="%(now)s::timestamptz", lease_expires_at="%(now)s::timestamptz + interval '1 year'",
        ),
        values,
    )  # fmt: skip


def _make_log(values: dict[str, Any]) -> None:
    run(
        insert(
            Decision, f"generate_series(1, {LINES}) AS line, fleet", values, what="'succeeded'", kind=f"'{KIND}'",
            text="name || ' was backed up'", subject="'assignment:' || assignment",
            at="%(now)s::timestamptz - (5 - line) * interval '20 hours' - share * interval '1 minute'",
        ),
        values,
    )  # fmt: skip


def _make_days(values: dict[str, Any]) -> None:
    """Make the day totals as the minute's round keeps them."""
    run(
        insert(
            DayTotal, "generate_series(1, 29) AS back", values, date="%(now)s::date - back::int",
            succeeded="%(count)s", failed="%(count)s / 100", added="'{\"1\": 1000000}'::jsonb",
        ),
        values,
    )  # fmt: skip
