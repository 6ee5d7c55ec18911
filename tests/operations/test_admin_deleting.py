"""What stands against deleting is headed by words that fit it, on the page of a row and in the list."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from delivery.models import Endpoint
from jobs.models import RetryPolicy, Throttle
from jobs.states import Status
from schedules.models import Schedule
from tests.factories import make_record, make_retry_policy, make_throttle
from tests.schedules.factories import make_endpoint, make_events

pytestmark = pytest.mark.django_db

DJANGO_SAYS = "protected related objects"
ASKS = "Are you sure"


def throttle_in_use() -> Throttle:
    throttle = make_throttle(4)
    make_events(throttle=throttle)
    return throttle


def endpoint_in_use() -> Endpoint:
    endpoint = make_endpoint()
    make_events(endpoint=endpoint)
    return endpoint


def retry_policy_in_use() -> RetryPolicy:
    policy = make_retry_policy()
    make_events(retry_policy=policy)
    return policy


def schedule_in_use() -> Schedule:
    schedule = make_events(name="busy")
    make_record(Status.READY, origin=schedule, trigger_at="2026-03-02T12:00Z")
    return schedule


IN_USE = (throttle_in_use, endpoint_in_use, retry_policy_in_use, schedule_in_use)


@pytest.fixture(params=IN_USE, ids=lambda make: make.__name__)
def used(request: Any) -> Any:
    make: Callable[[], Any] = request.param
    return make()


def address_of(row: Any) -> str:
    return f"/admin/{row._meta.app_label}/{row._meta.model_name}/"


def asked_in_the_list(client: Client, *rows: Any) -> str:
    action = {"action": "delete_selected", "_selected_action": [row.pk for row in rows]}
    return client.post(address_of(rows[0]), action).content.decode()


class TestWhatIsInUse:
    def test_is_told_by_its_page(self, admin_client: Client, used: Any) -> None:
        page = admin_client.get(f"{address_of(used)}{used.pk}/delete/").content.decode()
        assert "It cannot be deleted now:" in page
        assert DJANGO_SAYS not in page
        assert ASKS not in page

    def test_is_told_by_the_list(self, admin_client: Client, used: Any) -> None:
        page = asked_in_the_list(admin_client, used)
        assert "It cannot be deleted now:" in page
        assert DJANGO_SAYS not in page
        assert ASKS not in page


def test_one_in_use_keeps_those_that_are_chosen_with_it(admin_client: Client) -> None:
    page = asked_in_the_list(admin_client, throttle_in_use(), make_throttle(5))
    assert "They cannot all be deleted now, and none of them is:" in page
    assert DJANGO_SAYS not in page


def test_what_is_free_is_asked_about_as_ever(admin_client: Client) -> None:
    throttle = make_throttle(4)
    assert ASKS in admin_client.get(f"{address_of(throttle)}{throttle.pk}/delete/").content.decode()
    assert ASKS in asked_in_the_list(admin_client, throttle)
