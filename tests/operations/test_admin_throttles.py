"""The page of throttles: live numbers, and the messages about edits."""

import re
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.models import Throttle
from jobs.states import Status
from tests.factories import make_lane, make_record, make_throttle
from tests.jobs.throttling.rated import ready
from tests.people import listed

pytestmark = pytest.mark.django_db

LIST = "/admin/jobs/throttle/"


def add(client: Client, **fields: Any) -> Any:
    return client.post(f"{LIST}add/", {"name": "x", "max_in_flight": "1", "rate": "", "burst": "", **fields})


def messages(response: Any) -> list[str]:
    return [str(message) for message in get_messages(response.wsgi_request)]


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


def test_adds_one_and_nothing_in_flight_means_paused_and_says_so(admin_client: Client) -> None:
    response = add(admin_client, max_in_flight="5", rate="2.5", burst="7")
    assert response.status_code == 302
    assert not any("paused" in each for each in messages(response))
    throttle = Throttle.objects.get()
    assert (throttle.max_in_flight, throttle.rate, throttle.burst, throttle.tokens) == (5, 2.5, 7, 7)
    assert "name" in add(admin_client).context["adminform"].errors  # it is taken
    response = add(admin_client, name="y", max_in_flight="0")
    assert any("0 means paused: none of its records begins" in each for each in messages(response))
    ready(throttle, 3)
    change = {"name": "x", "max_in_flight": "0", "rate": "", "burst": ""}
    response = admin_client.post(f"{LIST}{throttle.pk}/change/", change)
    assert any("3 are ready" in each for each in messages(response))


def test_a_bad_value_is_named_beside_its_field(admin_client: Client) -> None:
    bad = [("max_in_flight", "-1"), ("max_in_flight", ""), ("rate", "0"), ("rate", "nan"), ("burst", "0"), ("name", "")]
    for field, value in bad:
        assert list(add(admin_client, **{field: value}).context["adminform"].errors) == [field]
    assert not Throttle.objects.exists()
