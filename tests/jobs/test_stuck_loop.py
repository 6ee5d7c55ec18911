"""A handler that blocks the event loop of its worker, in real processes."""

import os
import signal
import subprocess
import sys

import pytest
from django.conf import settings
from django.db.models.functions import Now

from jobs.clock import boot_seconds
from jobs.models import BacklogRecord, Worker
from jobs.states import AttemptOutcome, Status
from tests.jobs.worker_processes import once, outcomes_of
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, pytest.mark.long]

LEASE_SECONDS = 12
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


def end_of(record: BacklogRecord) -> tuple[Status, list[AttemptOutcome]]:
    record.refresh_from_db()
    return Status(record.status), outcomes_of(record)


RELEASED = (Status.READY, [AttemptOutcome.RELEASED])


@pytest.mark.django_db(transaction=True)
class TestOfAWorker:
    def test_is_described_and_ends_it_and_only_its_cause_is_charged_but_a_suspended_process_is_not_stuck(self, workers):
        lost = workers.put("hang async", subject="lost", retry_policy=once())
        worker = workers(BACKUPSCHED_LEASE=str(LEASE_SECONDS), grace=600)
        workers.wait_for("hang async")
        claimed_until = BacklogRecord.objects.get(pk=lost.pk).lease_expires_at
        # at its first heartbeat its guard has asked the loop for the first time
        eventually(BacklogRecord.objects.filter(pk=lost.pk, lease_expires_at__gt=claimed_until).exists)
        worker.send_signal(signal.SIGSTOP)
        wakes_at = boot_seconds() + LEASE_SECONDS
        eventually(lambda: boot_seconds() > wakes_at)
        worker.send_signal(signal.SIGCONT)
        renewed = BacklogRecord.objects.filter(pk=lost.pk, lease_expires_at__gt=Now())
        # its guard has looked, or its heartbeat came first
        eventually(lambda: "could not renew the lease of hang async" in workers.log() or renewed.exists())
        after = workers.put("quick")
        eventually(lambda: end_of(after)[0] == Status.SUCCEEDED)
        assert worker.poll() is None
        assert GIVES_UP not in workers.log()

        (workers.directory / "hang async-started").unlink()
        others = [workers.put("hang"), workers.put("hang async")]
        workers.wait_for("hang", "hang async")
        cause = workers.put("block", retry_policy=once())
        assert worker.wait(PATIENCE) == 1
        assert workers.log().count(GIVES_UP) == 1
        # a loop that a busy machine let wait for a moment was noticed, and turned again
        noticed, turned = (
            workers.log().count(f"the event loop {what}") for what in ("has not turned for", "turns again")
        )
        assert noticed == turned + 1
        assert "in block\n    time.sleep(3600)" in workers.log()
        assert end_of(cause) == (Status.FAILED, [AttemptOutcome.FAILED])
        assert "blocked the event loop of its worker" in cause.last_error
        assert [end_of(each) for each in others] == [RELEASED, RELEASED]
        assert Worker.objects.get().stopped_at is None  # the doctor names it

    def test_does_not_keep_it_from_ending_nor_from_releasing_what_never_began(self, workers):
        workers.put("block")
        worker = workers(grace=0.2)
        workers.wait_for("block")
        behind = workers.put("hang async")
        eventually(lambda: end_of(behind)[0] == Status.RUNNING)
        worker.terminate()
        assert worker.wait(PATIENCE) == 0
        assert end_of(behind) == RELEASED


def test_a_worker_that_cannot_even_end_is_ended_by_its_guard():
    environment = {**os.environ, "PYTHONPATH": str(settings.BASE_DIR), "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [sys.executable, "-c", STAYS_STUCK]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ended.returncode, ended.stdout) == (1, "asked to end\n"), ended.stderr
