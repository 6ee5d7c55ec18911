"""A worker behind PgBouncer in transaction mode: it polls, prepares nothing, and needs no session of its own."""

import pytest

from jobs.models import Attempt, BacklogRecord
from jobs.states import AttemptOutcome, Status
from tests.factories import make_lane, make_record, make_retry_policy, make_throttle
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_runs_everything_and_falls_back_on_nothing(pooled_url, workers):
    lane = make_lane(make_throttle(2))
    once = make_retry_policy(parameters={"base": 0.1}, max_failures=2)
    for number in range(90):
        make_record(kind="quick", lane=lane if number % 3 == 0 else 0)
    failing = make_record(kind="nonsense", retry_policy=once)
    worker = workers(DATABASE_URL=pooled_url, BACKUPSCHED_WAKE="poll")
    eventually(lambda: not BacklogRecord.objects.unfinished().exists())
    late = make_record(kind="quick")
    eventually(lambda: BacklogRecord.objects.get(pk=late.pk).status == Status.SUCCEEDED)
    worker.terminate()
    assert worker.wait(PATIENCE) == 0
    log = workers.log(0)
    assert "WARNING" not in log
    assert log.count("ERROR") == 0
    failing.refresh_from_db()
    assert (failing.status, failing.failures) == (Status.FAILED, 2)
    assert Attempt.objects.filter(outcome=AttemptOutcome.SUCCEEDED).count() == 91
