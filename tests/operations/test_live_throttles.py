"""The live numbers of throttles: one question for all of them."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.states import Status
from operations import throttles
from tests.factories import NOON, make_lane, make_record, make_throttle
from tests.jobs.throttling.rated import claim, make_rated, ready

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)


def test_each_comes_by_name_with_what_runs_is_ready_and_waits_in_all_of_its_lanes():
    one, two, idle = make_throttle(4), make_throttle(9), make_throttle(0)
    for lane in (make_lane(one), make_lane(one, two)):
        for queue in ("default", "availability"):
            make_record(Status.RUNNING, lane=lane, queue=queue)
        for queue in ("default", "availability", "elsewhere"):
            make_record(lane=lane, queue=queue)
        make_record(Status.WAITING, lane=lane)
        make_record(Status.SUCCEEDED, lane=lane)
    make_record()
    with CaptureQueriesContext(connection) as queries:
        found = throttles.live(now=NOON)
    assert len(queries) == 1
    assert [live.throttle.name for live in found] == sorted(cap.name for cap in (one, two, idle))
    numbers = {live.throttle.pk: (live.in_flight, live.ready, live.waiting) for live in found}
    assert numbers == {one.pk: (2, 6, 2), two.pk: (1, 3, 1), idle.pk: (0, 0, 0)}
    [only] = throttles.live([two.pk])
    assert (only.throttle, only.throttle.bucket_size, only.tokens, only.next_token_in) == (two, 1, None, None)
    assert throttles.live([]) == []


def test_tokens_are_those_of_the_present_and_the_next_one_comes_in_seconds():
    throttle = make_rated(0.5, burst=3, tokens=0.25)
    ready(throttle, 5)
    [live] = throttles.live(now=NOON + SECOND / 2)
    assert (live.tokens, live.next_token_in) == (0.5, 1)
    [live] = throttles.live(now=NOON + 60 * SECOND)
    assert (live.tokens, live.next_token_in) == (3, 0)
    assert len(claim(NOON + 60 * SECOND)) == 3
    [live] = throttles.live(now=NOON + 60 * SECOND)
    assert (live.tokens, live.next_token_in) == (0, 2)


def test_of_many_no_more_are_counted_than_the_bound_and_that_is_shown(monkeypatch):
    monkeypatch.setattr(throttles, "BOUND", 3)
    cap, other = make_throttle(1), make_throttle(1)
    for _ in range(5):
        make_record(lane=make_lane(cap))
    make_record(lane=make_lane(other))
    first, second = throttles.live([cap.pk])[0], throttles.live([other.pk])[0]
    assert (first.describe("ready"), first.describe("waiting")) == ("4+", "0")
    assert second.describe("ready") == "1"
    for _ in range(5):
        make_record(Status.WAITING, lane=make_lane(cap))
    assert throttles.live([cap.pk])[0].describe("waiting") == "4+"
    assert throttles.live([other.pk])[0].describe("waiting") == "0+"
