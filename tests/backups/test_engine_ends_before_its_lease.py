"""A run that a guard stops is gone before another worker may begin, also when it does not listen."""

import signal
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import psutil
import pytest

from jobs.clock import boot_seconds
from jobs.conf import QueueRule
from jobs.outcomes import ClaimedRecord, Outcome, Released
from jobs.worker.heartbeat import Guard
from jobs.worker.units import Units
from sources import planning
from tests.processes import below
from tests.sources.factories import claimed_for, make_assignment, make_source, policy_into
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, pytest.mark.promise, pytest.mark.django_db(transaction=True), pytest.mark.own_process]

LEASE_SECONDS = 12


@pytest.fixture
def ended() -> SimpleQueue[Outcome]:
    return SimpleQueue()


@pytest.fixture
def units(ended: SimpleQueue[Outcome], settings: Any) -> Iterator[Units]:
    settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": LEASE_SECONDS}

    def done(record: ClaimedRecord, outcome: Outcome) -> None:
        ended.put(outcome)

    units = Units([QueueRule(planning.BACKUPS, 1)], done, room_made=lambda: None, after_thread=close_connections)
    guard = Guard(units)
    guard.start()
    yield units
    guard.end()
    units.close()


def close_connections() -> None:
    from django.db import connections

    connections.close_all()


def renew(units: Units) -> float:
    """Renew the lease, as the heartbeat does. Returns the instant."""
    now = boot_seconds()
    for run in units.runs():
        run.renewed_at = now
    return now


def test_an_engine_that_ignores_every_polite_signal_is_gone_before_its_lease(
    units: Units, ended: SimpleQueue[Outcome], tmp_path: Path
) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "film").write_bytes(bytes(5_000_000))
    policy = policy_into(tmp_path / "vault", engine_options={"bwlimit": "100K"})
    record = claimed_for(make_assignment(policy, make_source(path=str(tmp_path / "files"))), queue=planning.BACKUPS)

    units.start([record], boot_seconds())
    [rclone] = eventually(lambda: renew(units) and below("copy"))
    rclone.send_signal(signal.SIGSTOP)  # from now on only SIGKILL reaches it
    renewed_at = renew(units)
    psutil.wait_procs([rclone], timeout=PATIENCE)
    gone_at = boot_seconds()
    assert LEASE_SECONDS * 2 / 3 < gone_at - renewed_at < LEASE_SECONDS
    assert isinstance(ended.get(timeout=PATIENCE), Released)
    assert boot_seconds() - renewed_at < LEASE_SECONDS
