"""A database whose clock is set forward makes every lease look expired, and no worker is dead by that."""

from collections.abc import Callable

import pytest
from django.db import connection

from jobs import claiming
from jobs.clock import boot_seconds
from jobs.conf import QueueRule
from jobs.handlers import Run
from jobs.models import BacklogRecord
from jobs.outcomes import Claimed
from jobs.states import Status
from jobs.worker import process
from tests.factories import make_record, make_worker
from tests.jobs.held import Held

pytestmark = pytest.mark.django_db

LEASE_SECONDS = 60
HOUR = 3600.0

Elapse = Callable[[float], None]


def step_the_databases_clock(seconds: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            CREATE SCHEMA IF NOT EXISTS stepped;
            CREATE OR REPLACE FUNCTION stepped.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
            RETURN pg_catalog.clock_timestamp() + interval '{seconds} seconds';
            SET LOCAL search_path = stepped, pg_catalog, public;
            """
        )


@pytest.fixture
def elapse(monkeypatch) -> Elapse:
    """Lets so many seconds pass, on the boot clock and on the database's."""
    began, elapsed = boot_seconds(), [0.0]
    monkeypatch.setattr(process, "boot_seconds", lambda: began + elapsed[0])

    def elapse(seconds: float) -> None:
        elapsed[0] += seconds
        step_the_databases_clock(elapsed[0])

    elapse(HOUR)  # the server has run for a lease
    return elapse


@pytest.fixture
def worker(settings, elapse) -> process.WorkerProcess:
    """One that has ticked for more than a lease, so that it rescues."""
    settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": LEASE_SECONDS}
    worker = process.WorkerProcess([QueueRule("default", 4)])
    worker.units = Held()
    look_for_a_lease(worker, elapse)
    return worker


def look_for_a_lease(worker: process.WorkerProcess, elapse: Elapse) -> None:
    for _ in range(4):
        worker.look()
        elapse(LEASE_SECONDS / 3)


def claim() -> Claimed:
    make_record()
    [claimed] = claiming.claim("default", worker_id=make_worker().pk, limit=1)
    return claimed


def is_running(record: Claimed) -> bool:
    return BacklogRecord.objects.get(pk=record.id).status == Status.RUNNING


def test_nothing_is_rescued_for_a_lease_after_the_clock_was_set_forward(worker, monkeypatch, elapse):
    worker.look()
    record = claim()
    step_the_databases_clock(3 * HOUR)
    worker.look()
    assert is_running(record)
    monkeypatch.setattr(f"{__name__}.step_the_databases_clock", lambda seconds: None)  # it stays there
    look_for_a_lease(worker, elapse)
    worker.look()
    assert not is_running(record)


def test_a_worker_rescues_nothing_that_it_has_renewed_within_a_lease(worker, elapse):
    record = claim()
    BacklogRecord.objects.update(lease_expires_at=record.started_at)
    run = Run(record, renewed_at=process.boot_seconds())
    worker.units = Held(run)
    worker.look()
    assert is_running(record)
    run.renewed_at -= LEASE_SECONDS
    worker.look()
    assert not is_running(record)
