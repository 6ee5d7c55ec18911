"""The live numbers of throttles, one question for all of them; and their pages in the admin."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.models import BacklogRecord, Throttle
from jobs.states import Status
from operations import throttles
from operations.declarations import Throttles
from tests.factories import NOON, claim_ready, make_lane, make_record, make_throttle
from tests.jobs.throttling.rated import make_rated, ready
from tests.people import listed

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
    assert len(claim_ready(now=NOON + 60 * SECOND)) == 3
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


@pytest.mark.parametrize("status", [Status.WAITING, Status.READY, Status.RUNNING])
def test_an_unfinished_record_keeps_each_throttle_of_its_lane_from_being_removed(status):
    throttle, other = make_throttle(1), make_throttle(2)
    make_record(status, lane=make_lane(throttle, other))
    for each in (throttle, other):
        [use] = Throttles().uses(each)
        assert use.startswith(f"{each.name}: of the records that name it 1 ")
    BacklogRecord.objects.all().delete()
    make_record(Status.SUCCEEDED, lane=make_lane(throttle))
    make_record(lane=make_lane(other))
    assert Throttles().uses(throttle) == []


def test_so_does_what_waits_behind_all_that_is_counted(monkeypatch):
    monkeypatch.setattr(throttles, "BOUND", 2)
    throttle = make_throttle(1)
    for _ in range(4):
        make_record(Status.WAITING)
    make_record(Status.WAITING, lane=make_lane(throttle), run_after="2099-01-01T00:00Z")
    [use] = Throttles().uses(throttle)
    assert "of the records that name it some are unfinished" in use


LIST = "/admin/jobs/throttle/"


def test_the_list_has_the_live_numbers_of_each_in_one_question_more(admin_client: Client) -> None:
    full, waiting, _ = make_throttle(1), make_throttle(7), make_throttle(0)
    make_record(Status.RUNNING, lane=make_lane(full))
    ready(full, 1_002)
    make_record(Status.WAITING, lane=make_lane(waiting))
    rated = Throttle.objects.create(name="rated", max_in_flight=5, rate=0.001, burst=1)
    Throttle.objects.filter(pk=rated.pk).update(tokens=0.31415)
    page = " ".join(admin_client.get(LIST).content.decode().split())
    for text in ("1 of 1", "1,002", "0 of 7", "0.001 a second, burst 1", "in 11 min"):
        assert text in page
    for cell in ("0.3", "full", "paused", "open", "no token"):
        assert re.sub(r">\s+|\s+<", lambda found: found[0].strip(), page).count(f">{cell}<") == 1, cell
    with CaptureQueriesContext(connection) as few:
        admin_client.get(LIST)
    for _ in range(20):
        make_throttle(1)
    with CaptureQueriesContext(connection) as many:
        assert len(listed(admin_client, LIST)) == 24
    assert len(many) == len(few)
