"""Single jobs that come one after the other begin about as soon as one that comes alone."""

import threading
from pathlib import Path
from statistics import median

import pytest
from django.db import connection

from jobs.backlog import enqueue
from jobs.models import BacklogRecord
from jobs.states import Status
from tests.jobs.worker_processes import WorkerProcesses
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

STANDSTILL = 0.05
"""Seconds for which other processes may have kept one of the two sorts, and not the other, from running: how they
compare is measured by `bench latency`. On an idle machine a sender that is silent for
150 ms fails this."""

WAITED = """
SELECT extract(epoch FROM started_at - inserted_at)::float8
  FROM jobs_backlogrecord
 WHERE subject LIKE %s
"""


def put(name: str, count: int, apart: float) -> None:
    """So many jobs, `apart` seconds from each other."""
    for number in range(count):
        enqueue("quick", [(f"{name} {number}", {})], queue="default")
        threading.Event().wait(apart)


def seconds_until_begun(name: str) -> float:
    """The median of these jobs, from their insertion to their claim."""
    unfinished = BacklogRecord.objects.filter(subject__startswith=name).exclude(status=Status.SUCCEEDED)
    eventually(lambda: not unfinished.exists())
    with connection.cursor() as cursor:
        cursor.execute(WAITED, [f"{name}%"])
        return median(row[0] for row in cursor.fetchall())


def test_a_trickle_begins_as_soon_as_single_jobs(tmp_path: Path):
    """Both on the same machine at the same time: it may be busy. No poll comes to their help."""
    workers = WorkerProcesses(tmp_path)
    try:
        workers(WORKER_POLL="3600")
        put("first", 3, apart=0.1)
        for number in range(2):
            put(f"alone {number}", 4, apart=0.2)
            put(f"trickle {number}", 20, apart=0.02)
            put(f"rush {number}", 60, apart=0.002)
        bound = 3 * seconds_until_begun("alone") + STANDSTILL
        assert seconds_until_begun("trickle") < bound
        assert seconds_until_begun("rush") < bound
    finally:
        workers.end()
