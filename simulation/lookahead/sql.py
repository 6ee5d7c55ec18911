"""The backlog of a fleet in a database: the product's own statements, with a virtual clock.

Slow, some milliseconds a decision; it is there to prove that `memory` decides in the same way. It makes its own rows
and needs tables without others of these kinds: run it in a database that is thrown away, and in a thread that has
called `prepare_in_this_thread`, as a worker does. It must not run in one transaction: row versions that such a
transaction has outdated are never removed from the indexes, and each look reads through all of them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import inf

from jobs import claiming, settling, tick
from jobs.models import Worker
from jobs.outcomes import ClaimedRecord, Outcome, Succeeded
from jobs.prepared_statements import execute
from jobs.states import Status
from jobs.worker.claimer import Shortage, shortage
from simulation.lookahead.world import PLACES, FleetRows
from sources.availability import giving_way, wake
from sources.models import Assignment, Repository, Source
from sources.planning import emission
from sources.planning.names import ARRIVALS, AVAILABILITY, BACKUPS, KIND

QUEUES = (ARRIVALS, AVAILABILITY, BACKUPS)
LONGEST = timedelta(days=1_000)

# An instant of another kind, such as of retention, moves no backup.
NEXT = f"""
SELECT LEAST(
       (SELECT min(run_after) FROM jobs_backlogrecord WHERE status = {Status.WAITING} AND kind = '{KIND}'),
       (SELECT min(closes_at) FROM jobs_backlogrecord WHERE status = {Status.READY} AND kind = '{KIND}'),
       (SELECT min(next_trigger_at) FROM schedules_schedule WHERE enabled))
"""

# The database's clock, which knows nothing of virtual time, has filled the column.
INSERTED = "UPDATE jobs_backlogrecord SET inserted_at = %(now)s::timestamptz WHERE id > %(known)s::bigint RETURNING id"


class SqlWorld:
    """A `BacklogWorld` of rows. Raises: django.db.Error where such rows are there already."""

    def __init__(self, rows: FleetRows, units: int, now: datetime) -> None:
        repository = Repository.objects.create(name="simulated", location="/nonexistent")
        for schedule, policy in zip(rows.schedules, rows.policies, strict=True):
            schedule.save(force_insert=True)
            policy.schedule, policy.repository = schedule, repository
            policy.save(force_insert=True)
        Source.objects.bulk_create(rows.sources)
        Assignment.objects.bulk_create(rows.assignments)
        queues = {BACKUPS: units, AVAILABILITY: PLACES, ARRIVALS: PLACES}
        self._worker = Worker.objects.create(
            name="virtual", hostname="virtual", pid=1, queues=queues, heartbeat_at=now + LONGEST
        )
        self._known = 0
        self._ready: frozenset[str] = frozenset()
        self._short: dict[tuple[str, datetime], Shortage] = {}
        """Feeder and instant → the shortage, until something is written: a batch of silences asks for it each time."""

    def begin(self, now: datetime) -> None:
        emission.emit_due(now, list(Assignment.objects.values_list("pk", flat=True)))
        self._date(now)
        self._ready = tick.look(QUEUES, now).ready

    def next_at(self) -> datetime | None:
        found: datetime | None = execute(NEXT, {}).fetchall()[0][0]
        return found

    def tick(self, now: datetime) -> None:
        self._short.clear()
        due = tick.look(QUEUES, now)
        moved = tick.act_on(due, now=now, rescue=False, emit_for=inf)
        if moved.emitted:
            self._date(now)
        self._ready = (tick.look(QUEUES, now) if any(moved) else due).ready

    def has_ready(self, queue: str) -> bool:
        return queue in self._ready

    def shortage(self, feeder: str, now: datetime) -> Shortage:
        if (feeder, now) not in self._short:
            self._short[feeder, now] = shortage(BACKUPS, feeder, now)
        return self._short[feeder, now]

    def claim(self, queue: str, limit: int, now: datetime) -> Sequence[ClaimedRecord]:
        self._short.clear()
        return claiming.claim(queue, worker_id=self._worker.pk, limit=limit, now=now)

    def claim_woken(self, queue: str, limit: int, now: datetime) -> Sequence[ClaimedRecord]:
        self._short.clear()
        return claiming.claim_woken(queue, worker_id=self._worker.pk, limit=limit, now=now)

    def assignment(self, number: int) -> Assignment:
        return self.assignments([number])[number]

    def assignments(self, numbers: Sequence[int]) -> Mapping[int, Assignment]:
        return Assignment.objects.select_related("source", "policy__schedule").in_bulk(numbers)

    def waking_up(self, source: Source, now: datetime) -> int:
        return wake.waking_up(source, now)

    def gives_way(self, record: ClaimedRecord, now: datetime) -> bool:
        return giving_way.gives_way(record, now)

    def note_packet(self, source: Source, now: datetime) -> None:
        Source.objects.filter(pk=source.pk).update(last_woken_at=now)

    def settle(self, results: Sequence[tuple[ClaimedRecord, Outcome]], now: datetime) -> None:
        self._short.clear()
        settling.settle(results, now=now).raise_if_lost()
        if any(isinstance(outcome, Succeeded) for _, outcome in results):
            self._date(now)

    def _date(self, now: datetime) -> None:
        ids = execute(INSERTED, {"now": now, "known": self._known}).fetchall()
        self._known = max((row[0] for row in ids), default=self._known)
