"""Single jobs that come one after the other begin about as soon as one that comes alone, and no poll helps them."""

from collections.abc import Sequence
from itertools import accumulate, repeat
from types import SimpleNamespace

import pytest

from jobs import wakeups
from jobs.backlog import enqueue
from jobs.models import BacklogRecord
from jobs.states import Status
from jobs.worker import hints
from jobs.worker.hints import Hints
from tests.waiting import eventually

SOON = 0.005
"""Seconds: what `bench latency` measures of a job that comes alone."""
SILENT_FOR = 2.0
"""Seconds of a sender and its worker that are slower than real ones: longer than it takes to put a job there."""


def longest_wait(monkeypatch: pytest.MonkeyPatch, arrivals: Sequence[float]) -> float:
    """Seconds from the arrival of a job until the worker looks, at most; infinity: it sleeps on. By a clock that moves
    to what comes next, and as if neither NOTIFY nor claim took any time."""
    now, heard = 0.0, Hints()
    monkeypatch.setattr(wakeups, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(hints, "boot_seconds", lambda: now)
    monkeypatch.setattr(wakeups, "_last_sent", {})
    monkeypatch.setattr(wakeups, "_send", lambda _channel, queue: heard.hear(queue))
    coming, waiting, waited = list(arrivals), list[float](), [0.0]
    while coming or waiting:
        wakes_at = now + heard.seconds_until_next()
        if coming and coming[0] <= wakes_at:
            now = coming.pop(0)
            waiting.append(now)
            wakeups._announce_ready("default")
        else:
            now = wakes_at
        if heard.take("default") or now == float("inf"):
            waited += [now - since for since in waiting]
            waiting.clear()
    return max(waited)


@pytest.mark.parametrize("apart", [0.0001, 0.0005, 0.0019, 0.002, 0.0021, 0.003, 0.007, 0.02, 0.2])
def test_a_trickle_is_looked_for_as_soon_as_single_jobs(monkeypatch, apart):
    assert longest_wait(monkeypatch, list(accumulate(repeat(apart, 200), initial=1.0))) < SOON


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_what_comes_while_its_sender_is_silent_is_found_by_a_worker(monkeypatch, workers):
    monkeypatch.setattr(wakeups, "QUIET_SECONDS", SILENT_FOR)
    monkeypatch.setattr(wakeups, "_last_sent", {})
    unfinished = BacklogRecord.objects.exclude(status=Status.SUCCEEDED)
    workers(WORKER_POLL="3600", WORKER_QUIET=str(SILENT_FOR))
    for number in range(2):
        enqueue("quick", [(str(number), {})], queue="default")
        eventually(lambda: not unfinished.exists())
