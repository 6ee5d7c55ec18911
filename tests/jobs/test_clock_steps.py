"""A database whose clock is set forward makes every lease look expired, and no worker is dead by that."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from jobs import claiming, conf, rescuing
from jobs.clock import boot_seconds, database_clock
from jobs.conf import QueueRule
from jobs.handlers import registry
from jobs.models import BacklogRecord, Worker
from jobs.outcomes import ClaimedRecord
from jobs.states import Status
from jobs.worker import process
from tests.factories import claim_new, claim_ready, make_record
from tests.jobs.clocks import step_the_databases_clock
from tests.jobs.held import Held
from tests.threads import beside

pytestmark = pytest.mark.django_db

LEASE_SECONDS = 60
HOUR = 3600.0

Elapse = Callable[[float], None]


def let_boot_seconds_pass(monkeypatch) -> Callable[[float], float]:
    """The boot clock stands still. Returns what moves it, and says by how much in all."""
    monkeypatch.setattr(registry, "periodic", [])  # what a minute begins in threads would commit beside the test
    began, elapsed = boot_seconds(), [0.0]
    for module in (process, rescuing):
        monkeypatch.setattr(module, "boot_seconds", lambda: began + elapsed[0])

    def elapse(seconds: float) -> float:
        elapsed[0] += seconds
        return elapsed[0]

    return elapse


@pytest.fixture
def elapse(monkeypatch) -> Elapse:
    """Lets so many seconds pass, on the boot clock and on the database's."""
    let_pass = let_boot_seconds_pass(monkeypatch)

    def elapse(seconds: float) -> None:
        step_the_databases_clock(let_pass(seconds))

    elapse(HOUR)  # the server has run for a lease
    return elapse


@pytest.fixture
def worker(settings, elapse) -> process.WorkerProcess:
    settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": LEASE_SECONDS}
    return worker_that_looked_for_a_lease(elapse)


def worker_that_looked_for_a_lease(elapse: Callable[[float], object]) -> process.WorkerProcess:
    worker = process.WorkerProcess([QueueRule("default", 4)])
    worker.units = Held()
    look_for_a_lease(worker, elapse)
    return worker


def look_for_a_lease(worker: process.WorkerProcess, elapse: Callable[[float], object]) -> None:
    for _ in range(4):
        worker.look()
        elapse(conf.lease_seconds() / 3)


def claim(now: datetime | None = None) -> ClaimedRecord:
    [claimed] = claim_new(now=now)
    return claimed


def is_running(record: ClaimedRecord) -> bool:
    return BacklogRecord.objects.get(pk=record.id).status == Status.RUNNING


def test_nothing_is_rescued_for_a_lease_after_the_clock_was_set_forward(worker, monkeypatch, elapse):
    worker.look()
    record = claim()
    step_the_databases_clock(3 * HOUR)
    worker.look()
    assert is_running(record)
    monkeypatch.setattr(f"{__name__}.step_the_databases_clock", lambda seconds: None)  # it stays there
    look_for_a_lease(worker, elapse)
    assert not is_running(record)


@pytest.mark.parametrize("lease", [5, 2])
def test_an_idle_worker_rescues_however_short_leases_are(settings, elapse, lease):
    settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": lease, "WAKE": "listen"}
    worker = process.WorkerProcess([QueueRule("default", 4)])
    worker.units = Held()
    worker._moved_at -= process.IDLE_AFTER_SECONDS
    record, until = claim(), process.boot_seconds() + 3 * lease
    while process.boot_seconds() < until and is_running(record):
        worker.look()
        elapse(max(0.0, worker._look_at - process.boot_seconds()) + process.SHORTEST_SLEEP_SECONDS)
    assert not is_running(record)


def test_a_lease_that_another_worker_renews_is_not_rescued_whatever_the_clock_says(worker, elapse):
    record = claim()
    for seconds in range(12):
        BacklogRecord.objects.update(lease_expires_at=record.started_at - timedelta(seconds=seconds))
        elapse(LEASE_SECONDS / 3)
        worker.look()
        assert is_running(record)


@pytest.mark.parametrize("is_renewal", [False, True], ids=["claim", "renewal"])
def test_a_lease_that_was_given_while_the_clock_was_ahead_is_rescued_before_it_is_that_late(
    worker, elapse, monkeypatch, is_renewal
):
    ahead = database_clock() + timedelta(hours=3)
    record = claim(now=None if is_renewal else ahead)
    if is_renewal:
        claiming.renew({record.id: record.lease_token}, worker_id=record.worker_id, now=ahead)
        Worker.objects.filter(pk=record.worker_id).update(heartbeat_at=ahead)
    worker.look()
    assert is_running(record)
    look_for_a_lease(worker, elapse)
    assert not is_running(record)
    monkeypatch.setattr(rescuing, "rescue", lambda **_: pytest.fail("nothing runs, so nothing is asked"))
    worker.look()


def test_a_lease_of_a_worker_with_longer_leases_is_not_rescued(worker, settings, elapse):
    settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": HOUR}
    record = claim(now=database_clock())
    settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": LEASE_SECONDS}
    look_for_a_lease(worker, elapse)
    look_for_a_lease(worker, elapse)
    assert is_running(record)


def test_a_server_that_was_started_by_a_clock_that_was_ahead_lets_rescues_through(settings, monkeypatch):
    settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": LEASE_SECONDS}
    let_pass = let_boot_seconds_pass(monkeypatch)

    def elapse(seconds: float) -> None:
        step_the_databases_clock(let_pass(seconds) - 3 * HOUR)

    elapse(0)
    record = claim(now=database_clock())
    worker = worker_that_looked_for_a_lease(elapse)
    worker.look()
    assert not is_running(record)


@pytest.mark.django_db(transaction=True)
def test_a_lease_that_was_given_while_the_clock_was_set_back_for_a_moment_is_not_rescued(settings, monkeypatch):
    """Set back and forward again between two looks of this worker, in which another one claims."""
    settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": 1}
    worker = worker_that_looked_for_a_lease(let_boot_seconds_pass(monkeypatch))
    make_record()
    an_hour_ago = database_clock() - timedelta(hours=1)
    [record] = beside(lambda: claim_ready(1, now=an_hour_ago)).result()
    worker.look()
    assert is_running(record)
