"""A worker killed with SIGKILL at each step of the lease protocol, a database that crashes, a record that kills."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from jobs import rescuing
from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord, RetryPolicy
from jobs.states import AttemptOutcome, Status
from proving.chaos.facts import EXIT_CODE_OF_POISON
from proving.chaos.server import CrashingServer, make_directory, remove_directory
from tests.copied_database import copy_tables
from tests.factories import make_lane, make_throttle
from tests.proving.chaos.workers import Workers
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, pytest.mark.promise]

SUCCEEDED, RESCUED = AttemptOutcome.SUCCEEDED, AttemptOutcome.RESCUED

LEASE_SECONDS = 4
OUTAGE_LEASE_SECONDS = 2 * PATIENCE
"""Longer than any restart here: nothing may be lost, so nothing may be rescued."""


@pytest.fixture
def workers(transactional_db: None, tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(tmp_path, lease=LEASE_SECONDS)
    yield workers
    workers.kill_all()


def put(base: str = "plain", *, queue: str = "default", tries: int | None = None, **fields: Any) -> BacklogRecord:
    policy, _ = RetryPolicy.objects.get_or_create(
        name=f"at once, up to {tries}",
        defaults={"algorithm": "constant", "parameters": {"base": 0.1}, "max_failures": tries},
    )
    facts = {"queue": queue, "status": Status.READY, "run_after": database_clock(), "retry_policy": policy}
    subject = f"number {BacklogRecord.objects.count()}"
    return BacklogRecord.objects.create(kind=f"{base} {queue}", subject=subject, **facts, **fields)


def outcomes_of(record: BacklogRecord) -> list[AttemptOutcome]:
    attempts = Attempt.objects.filter(record=record).order_by("number")
    assert [attempt.number for attempt in attempts] == list(range(1, len(attempts) + 1))
    return [AttemptOutcome(attempt.outcome) for attempt in attempts]


State = tuple[Status, int, int, list[AttemptOutcome]]
"""Status, attempt, failures and history."""

NOTHING: State = (Status.READY, 0, 0, [])
HELD: State = (Status.RUNNING, 1, 0, [])
DONE: State = (Status.SUCCEEDED, 1, 0, [SUCCEEDED])
AGAIN: State = (Status.SUCCEEDED, 2, 1, [RESCUED, SUCCEEDED])


class Doomed:
    """A record of kind `base` in a queue of its own, whose only worker kills itself at `step`.

    What it is when its worker is dead and at the end, and how often its handler began by then.
    """

    def __init__(self, step: str, killed: State, end: State, runs: int, base: str = "plain", **fields: Any) -> None:
        self.step, self.base, self.expected = step, base, (killed, end, runs, int(base == "booked"))
        self.queue = f"{base} {step}"
        self.record = put(base, queue=self.queue, **fields)

    def state(self) -> State:
        self.record.refresh_from_db()
        return Status(self.record.status), self.record.attempt, self.record.failures, outcomes_of(self.record)

    def booked(self) -> int:
        """The number of times that its settle hook wrote its row."""
        return RetryPolicy.objects.filter(name=f"booked {self.record.pk}").count()


def kill_workers_of(doomed: list[Doomed], workers: Workers) -> None:
    """Each in a process of its own. None may find the lease of another expired."""
    victims = workers.start_doomed({each.queue: each.step for each in doomed}, lease=OUTAGE_LEASE_SECONDS)
    assert victims.wait(PATIENCE) == 0


def nothing_runs() -> bool:
    """True once what runs was rescued. Rows that the server still holds for a dead worker are passed over at first."""
    rescuing.rescue()
    return not BacklogRecord.objects.running().exists()


def finish(doomed: list[Doomed], workers: Workers) -> None:
    """Let their leases expire, and another worker finish these records, and one in each queue that comes after them."""
    BacklogRecord.objects.running().update(lease_expires_at=database_clock())
    eventually(nothing_runs)
    after = [put(queue=each.queue) for each in doomed]
    survivor = workers.start(queues=[each.queue for each in doomed], lease=OUTAGE_LEASE_SECONDS)
    eventually(lambda: not BacklogRecord.objects.unfinished().exists())
    assert survivor.poll() is None
    assert [outcomes_of(record) for record in after] == [[SUCCEEDED]] * len(after)


def test_killed_at_any_step_it_runs_again_if_and_only_if_no_result_of_it_was_committed(workers, settings):
    settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": 1}  # this process rescues, once the server has run for so long
    throttled = make_lane(make_throttle(1))
    doomed = [
        Doomed("before the claim's commit", NOTHING, DONE, 1),
        Doomed("holding the throttle's lock", NOTHING, DONE, 1, lane=throttled),
        Doomed("after the claim's commit", HELD, AGAIN, 1),
        Doomed("in the handler", HELD, AGAIN, 2),
        Doomed("before the settle", HELD, AGAIN, 2),
        Doomed("in the settle", HELD, AGAIN, 2),
        Doomed("in the settle", HELD, AGAIN, 2, "booked"),
        Doomed("after the settle's commit", DONE, DONE, 1),
        Doomed("after the settle's commit", DONE, DONE, 1, "booked"),
    ]
    kill_workers_of(doomed, workers)
    killed = [each.state() for each in doomed]
    finish(doomed, workers)
    runs = workers.runs()
    found = [
        (state, each.state(), runs[each.record.pk], each.booked()) for state, each in zip(killed, doomed, strict=True)
    ]
    assert found == [each.expected for each in doomed]


class TestPoison:
    TRIES = 2
    GOOD = 50

    def test_gives_up_at_last_while_everything_beside_it_succeeds(self, workers):
        poison = put("poison", tries=self.TRIES)
        good = [put().pk for _ in range(self.GOOD)]
        poisoned: set[int] = set()

        def over() -> bool:
            poisoned.update(process.pid for process in workers.started if process.poll() == EXIT_CODE_OF_POISON)
            held = BacklogRecord.objects.filter(pk=poison.pk, leased_by__pid__in=poisoned)
            held.filter(lease_expires_at__gt=(now := database_clock())).update(lease_expires_at=now)
            while len(workers.alive()) < 2:
                workers.start(wait=False)
            return not BacklogRecord.objects.unfinished().exists()

        eventually(over)
        poison.refresh_from_db()
        outcomes = outcomes_of(poison)
        assert (poison.status, poison.failures, poison.attempt) == (Status.FAILED, self.TRIES, len(outcomes))
        # released: a machine that stood still after the claim let it not begin
        assert [each for each in outcomes if each != AttemptOutcome.RELEASED] == [RESCUED] * self.TRIES
        assert len(poisoned) == self.TRIES
        assert BacklogRecord.objects.filter(pk__in=good, status=Status.SUCCEEDED).count() == self.GOOD
        succeeded = Attempt.objects.filter(record_id__in=good, outcome=SUCCEEDED)
        assert succeeded.count() == self.GOOD


INSERT = f"""
INSERT INTO jobs_backlogrecord
       (kind, queue, subject, payload, status, run_after, priority, failures, last_error, attempt, lane)
SELECT 'plain default', 'default', 'number ' || number,
       jsonb_build_object('seconds', CASE WHEN number %% %(slow_each)s = 0 THEN 0.4 ELSE 0 END),
       {Status.READY}, now(), 0, 0, '', 0, 0
  FROM generate_series(1, %(count)s) AS number
"""


@pytest.fixture
def crashing(django_db_setup: None) -> Iterator[CrashingServer]:
    """A server of its own with the tables of the tests'. It may crash; the machine may not, so nothing is flushed."""
    directory = make_directory()
    server = CrashingServer(directory, settings={"fsync": "off"})
    try:
        server.ensure_running()
        copy_tables(server.url())
        yield server
    finally:
        server.destroy()
        remove_directory(directory)


class TestTheDatabaseCrashesUnderLoad:
    COUNT = 1500
    SLOW_EACH = 50
    CRASHES = 2

    def test_no_result_is_lost_and_nothing_runs_twice(self, crashing, tmp_path):
        workers = Workers(tmp_path, lease=OUTAGE_LEASE_SECONDS, url=crashing.url(), concurrency=8)
        with psycopg.connect(crashing.url(), autocommit=True) as connection:
            connection.execute(INSERT, {"count": self.COUNT, "slow_each": self.SLOW_EACH})
        try:
            workers.start()
            for crash in range(1, self.CRASHES + 1):
                share = crash * self.COUNT // (self.CRASHES + 2)
                eventually(lambda share=share: len(workers.runs()) > share)
                crashing.restart_as_after_a_crash()
            eventually(lambda: self.finished(crashing) == self.COUNT)
            assert len(workers.alive()) == 1
            assert "waiting for the database" in workers.log(0)
        finally:
            workers.kill_all()
        runs = workers.runs("ended")
        assert len(runs) == self.COUNT
        assert [record for record, count in runs.items() if count > 1] == []
        assert self.histories(crashing) == {"succeeded": self.COUNT}

    def finished(self, server: CrashingServer) -> int:
        query = f"SELECT count(*) FROM jobs_backlogrecord WHERE status = {Status.SUCCEEDED}"
        with psycopg.connect(server.url()) as connection:
            return int(connection.execute(query).fetchone()[0])

    def histories(self, server: CrashingServer) -> dict[str, int]:
        """The number of attempts by outcome. A claim whose answer was lost is given back without having run."""
        query = "SELECT outcome, count(*) FROM jobs_attempt GROUP BY outcome"
        with psycopg.connect(server.url()) as connection:
            found = {str(AttemptOutcome(outcome).label): count for outcome, count in connection.execute(query)}
        found.pop("released", None)
        return found
