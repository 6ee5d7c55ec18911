"""The duration of an event, learnt from delivered ones, with which a plan calculates."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.models import Attempt
from jobs.states import AttemptOutcome, Status
from schedules.capacity import check
from schedules.models import Schedule, Trigger
from tests.factories import NOON, make_record
from tests.schedules.factories import make_events, make_throttle
from tests.schedules.loads import SATURDAY

HOUR = timedelta(hours=1)


def delivered(
    schedule: Schedule, *seconds: float, at: Any = NOON, outcome: AttemptOutcome = AttemptOutcome.SUCCEEDED
) -> None:
    Trigger.objects.create(schedule=schedule, trigger_at=at, events=len(seconds), emitted_at=at)
    for each in seconds:
        record = make_record(Status.SUCCEEDED, origin=schedule, trigger_at=at)
        Attempt.objects.create(
            record=record, number=1, queue="callbacks", started_at=at, ended_at=at + HOUR, outcome=outcome,
            facts={"seconds": each},
        )  # fmt: skip


def measured(schedule: Schedule) -> float | None:
    one = check(schedule, SATURDAY).demand
    return one.seconds_each if one.is_measured else None


@pytest.mark.django_db
class TestHowLongAnEventTakes:
    def test_is_the_median_of_what_succeeded(self) -> None:
        one, new = make_events(name="a"), make_events(name="b")
        delivered(one, 0.1, 0.2, 9.0)
        delivered(one, 30.0, 30.0, 30.0, 30.0, at=NOON + HOUR, outcome=AttemptOutcome.FAILED)
        assert (measured(one), measured(new)) == (0.2, None)
        for number in range(2, 10):
            delivered(one, float(number), at=NOON + number * HOUR)
        assert measured(one) == 7.0, "of the latest five triggers"
        for facts in (None, {"status": 200}, {"seconds": "soon"}):
            Attempt.objects.update(facts=facts)
            assert measured(one) == 3600.0, "how long it ran, where no handler measured it"

    def test_is_asked_of_fewer_records_each_where_many_schedules_share_a_throttle(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        throttle = make_throttle()
        one = make_events(name="a", throttle=throttle)
        delivered(one, 1.0, 5.0, 5.0)
        assert measured(one) == 5.0
        monkeypatch.setattr("schedules.capacity.SAMPLE", 2)
        monkeypatch.setattr("schedules.capacity.LEAST_SAMPLE", 1)
        make_events(name="b", throttle=throttle)
        with CaptureQueriesContext(connection) as asked:
            assert measured(one) in (1.0, 5.0)
        assert any("LIMIT 1) AS record" in each["sql"] for each in asked.captured_queries)
