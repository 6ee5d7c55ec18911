"""A staggered batch as its receiver sees it: a real worker promotes, claims and delivers."""

from datetime import timedelta

import pytest

from delivery.models import Endpoint
from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord, Worker
from jobs.states import Status
from schedules.models import Schedule, Trigger
from tests.jobs.spread import most_within
from tests.jobs.throttling.counting_receiver import counting_receiver, start_delivering
from tests.jobs.worker_processes import Programs
from tests.waiting import eventually

COUNT, WINDOW_FOR = 400, 10


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_events_arrive_spread_over_the_window(programs: Programs) -> None:
    with counting_receiver(answers_after=0.0) as receiver:
        start_delivering(programs)
        eventually(Worker.objects.exists)
        schedule = Schedule.objects.create(
            name="batch", cron="0 0 1 1 *", kind="http_callback", event_count=COUNT, window_for=WINDOW_FOR,
            stagger="even", endpoint=Endpoint.objects.create(name="receiver", url=receiver.url),
        )  # fmt: skip
        trigger_at = database_clock().replace(microsecond=0) + timedelta(seconds=2)
        Trigger.objects.create(schedule=schedule, trigger_at=trigger_at)
        eventually(lambda: BacklogRecord.objects.filter(status=Status.SUCCEEDED).count() == COUNT, seconds=90)
    begun = sorted(Attempt.objects.values_list("started_at", flat=True))
    assert len(begun) == len(receiver.begun_at) == COUNT
    # the plan is test_stagger.py's; a machine that stands still for a moment delivers some of them late, and together
    early = [trigger_at + timedelta(seconds=WINDOW_FOR * (number / COUNT - 0.05)) for number in range(COUNT)]
    assert all(at >= least for at, least in zip(begun, early, strict=True))
    assert most_within(WINDOW_FOR / 10, [at.timestamp() for at in begun]) <= COUNT / 2
