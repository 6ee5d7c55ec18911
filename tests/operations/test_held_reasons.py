"""Why a ready record does not run: what its throttles say."""

from datetime import timedelta

import pytest

from jobs.models import BacklogRecord
from operations.backlog.reasons import reasons
from tests.factories import NOON, make_lane, make_record, make_throttle, make_worker
from tests.jobs.throttling.rated import claim, make_rated, ready

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _a_worker():
    make_worker(queues={"default": 4, "availability": 9, "backups": 9}, heartbeat_at=NOON + timedelta(minutes=1))


def why(record_id: int) -> list[str]:
    return reasons(BacklogRecord.objects.get(pk=record_id), NOON)


def test_a_paused_one_says_how_it_is_resumed():
    throttle = make_throttle(0)
    [first] = ready(throttle)
    assert why(first) == [
        f"its throttle {throttle.name} (paused): until `manage.py throttles resume '{throttle.name}' N` none begins",
        "it is ready, number 1 in the claim order of queue default",
    ]
    assert "(paused)" in why(ready(throttle, queue="availability")[0])[0]


def test_one_without_a_token_says_when_the_next_one_comes():
    throttle = make_rated(0.1, tokens=0.5)
    first, _ = ready(throttle, 2)
    assert why(first)[0] == f"its throttle {throttle} has no token: the next one comes in 5 s"


def test_each_that_holds_it_is_named_and_no_other():
    full, empty, roomy = make_throttle(1), make_rated(1), make_throttle(9)
    lane = make_lane(full)
    make_record(lane=lane)
    claim()
    record = make_record(lane=make_lane(full, empty, roomy))
    *held, position = why(record.pk)
    assert [line.split(" (")[0] for line in held] == sorted([f"its throttle {full.name}", f"its throttle {empty.name}"])
    assert position.startswith("it is ready")


def test_a_source_that_is_not_asked_since_tokens_come_too_rarely_says_so():
    throttle = make_rated(0.1, tokens=1)
    ready(throttle, 4, queue="backups")
    [unasked] = ready(throttle, queue="availability")
    assert why(unasked)[0] == f"its throttle {throttle} has 4 tokens within 30 s: 4 more stand ready in backups"
    BacklogRecord.objects.filter(queue="backups").first().delete()
    assert not any("tokens" in line for line in why(unasked))
    assert len(claim(queue="availability")) == 1
