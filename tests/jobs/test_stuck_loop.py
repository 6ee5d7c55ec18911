"""A handler that keeps the event loop of its worker from turning, in real processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.db.models.functions import Now

from jobs.clock import boot_seconds, database_clock
from jobs.models import BacklogRecord, RetryPolicy, Worker
from jobs.states import AttemptOutcome, Status
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.slow

LEASE_SECONDS = 6
"""Two thirds of it are waited for twice; a machine that stands still for so long fails these tests."""
GIVES_UP = "two thirds of a lease: this worker ends"

STAYS_STUCK = """
import time, django
django.setup()
from jobs.worker.event_loop import EventLoop, LoopWatch

loop = EventLoop()
loop.loop.call_soon_threadsafe(time.sleep, 3600)
watch = LoopWatch(loop, busy=list, give_up=lambda: print("asked to end", flush=True))
while True:
    watch.beat()
"""


def put(kind: str, tmp_path: Path, subject: str = "") -> BacklogRecord:
    policy, _ = RetryPolicy.objects.get_or_create(name="once", algorithm="constant", max_failures=1)
    payload = {"gate": str(tmp_path / f"{kind}-gate"), "started": str(tmp_path / f"{kind}-started")}
    return BacklogRecord.objects.create(
        kind=kind, subject=subject or kind, payload=payload, retry_policy=policy,
        queue="default", status=Status.READY, run_after=database_clock(),
    )  # fmt: skip


def started(kind: str, tmp_path: Path) -> None:
    eventually((tmp_path / f"{kind}-started").exists)


def end_of(record: BacklogRecord) -> tuple[Status, list[AttemptOutcome]]:
    record.refresh_from_db()
    outcomes = record.attempts.order_by("number").values_list("outcome", flat=True)
    return Status(record.status), [AttemptOutcome(outcome) for outcome in outcomes]


RELEASED = (Status.READY, [AttemptOutcome.RELEASED])


@pytest.mark.django_db(transaction=True)
class TestOfAWorker:
    def test_is_described_and_ends_it_and_only_its_cause_is_charged_but_a_suspended_process_is_not_stuck(
        self, workers, tmp_path
    ):
        lost = put("hang async", tmp_path, subject="lost")
        worker = workers(BACKUPSCHED_LEASE=str(LEASE_SECONDS), grace=600)
        started("hang async", tmp_path)
        claimed_until = BacklogRecord.objects.get(pk=lost.pk).lease_expires_at
        # at its first heartbeat its guard has asked the loop for the first time
        eventually(BacklogRecord.objects.filter(pk=lost.pk, lease_expires_at__gt=claimed_until).exists)
        worker.send_signal(signal.SIGSTOP)
        wakes_at = boot_seconds() + LEASE_SECONDS
        eventually(lambda: boot_seconds() > wakes_at)
        worker.send_signal(signal.SIGCONT)
        renewed = BacklogRecord.objects.filter(pk=lost.pk, lease_expires_at__gt=Now())
        # its guard has looked, or its heartbeat came first
        eventually(lambda: "could not renew the lease of hang async" in workers.log(0) or renewed.exists())
        after = put("quick", tmp_path)
        eventually(lambda: end_of(after)[0] == Status.SUCCEEDED)
        assert worker.poll() is None
        assert GIVES_UP not in workers.log(0)

        (tmp_path / "hang async-started").unlink()
        others = [put("hang", tmp_path), put("hang async", tmp_path)]
        started("hang", tmp_path)
        started("hang async", tmp_path)
        cause = put("block", tmp_path)
        assert worker.wait(PATIENCE) == 1
        assert workers.log(0).count(GIVES_UP) == 1
        # a loop that a busy machine let wait for a moment was noticed, and turned again
        noticed, turned = (
            workers.log(0).count(f"the event loop {what}") for what in ("has not turned for", "turns again")
        )
        assert noticed == turned + 1
        assert "in block\n    time.sleep(3600)" in workers.log(0)
        assert end_of(cause) == (Status.FAILED, [AttemptOutcome.FAILED])
        assert "kept the event loop of its worker from turning" in cause.last_error
        assert [end_of(each) for each in others] == [RELEASED, RELEASED]
        assert Worker.objects.get().stopped_at is None  # the doctor names it

    def test_does_not_keep_it_from_ending_nor_from_releasing_what_never_began(self, workers, tmp_path):
        put("block", tmp_path)
        worker = workers(grace=0.2)
        started("block", tmp_path)
        behind = put("hang async", tmp_path)
        eventually(lambda: end_of(behind)[0] == Status.RUNNING)
        worker.terminate()
        assert worker.wait(PATIENCE) == 0
        assert end_of(behind) == RELEASED


def test_a_worker_that_cannot_even_end_is_ended_by_its_guard():
    environment = {**os.environ, "PYTHONPATH": str(settings.BASE_DIR), "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [sys.executable, "-c", STAYS_STUCK]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ended.returncode, ended.stdout) == (1, "asked to end\n"), ended.stderr
