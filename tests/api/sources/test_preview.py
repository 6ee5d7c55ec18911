"""GET /api/policies/{name}/preview."""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from schedules.models import Schedule
from sources.models import Policy
from tests.api.asking import problem_of
from tests.sources.factories import make_policy

pytestmark = pytest.mark.django_db

NIGHTS = [{"days": "mon-sun", "start": "22:00", "end": "06:00"}]


def named(name: str, **fields: Any) -> Policy:
    policy = make_policy(**fields)
    Schedule.objects.filter(pk=policy.schedule.pk).update(name=name)
    return policy


def get(client: Client, name: str, **query: Any) -> Any:
    return client.get(f"/api/policies/{quote(name, safe='')}/preview", query)


def test_the_next_periods_with_their_openings(admin_client: Client) -> None:
    named("laptops", cron="0 9 * * *", zone="Europe/Berlin", window=NIGHTS)
    answer = get(admin_client, "laptops", count=2, **{"from": "2026-03-28T00:00:00+01:00"})
    assert answer.status_code == 200
    first, second = answer.json()["periods"]
    assert datetime.fromisoformat(first["begins_at"]) == datetime.fromisoformat("2026-03-28T08:00:00+00:00")
    [night] = first["openings"]
    assert night["seconds"] == timedelta(hours=7).total_seconds()  # the clocks go forward in it
    assert second["begins_at"] > first["begins_at"]


def test_ten_from_now_on_unless_told_otherwise(admin_client: Client) -> None:
    named("laptops")
    assert len(get(admin_client, "laptops").json()["periods"]) == 10


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "?count=1",
    ],
)
def test_any_name_can_be_asked_for(admin_client: Client, name: str) -> None:
    named(name)
    answer = get(admin_client, name, count=1)
    assert (answer.status_code, answer.json().get("policy")) == (200, name)


@pytest.mark.parametrize(
    "name",
    [
        "nothing",
        "LAPTOPS",
    ],
)
def test_an_unknown_policy(admin_client: Client, name: str) -> None:
    named("laptops")
    answer = get(admin_client, name)
    assert answer.status_code == 404
    problem_of(answer)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("count", "0"),
        ("count", "9" * 5000),
        ("from", "10000-01-01T00:00:00Z"),
    ],
)
def test_a_bad_count_or_instant_is_refused_by_name(admin_client: Client, field: str, value: str) -> None:
    named("laptops")
    answer = get(admin_client, "laptops", **{field: value})
    assert answer.status_code == 422
    assert problem_of(answer)["detail"].startswith(field)


@pytest.mark.parametrize(
    "instant",
    [
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-12:00",
        "0001-01-01T00:00:00Z",
    ],
)
@pytest.mark.parametrize("zone", ["Pacific/Apia", "America/Havana"])
def test_the_ends_of_time_are_an_answer_or_refused(admin_client: Client, instant: str, zone: str) -> None:
    named("laptops", zone=zone, window=NIGHTS)
    answer = get(admin_client, "laptops", **{"from": instant})
    assert answer.status_code in (200, 422)


def test_a_policy_that_cannot_be_read(admin_client: Client) -> None:
    policy = named("broken")
    Policy.objects.filter(pk=policy.pk).update(window=[{"days": "never"}])
    answer = get(admin_client, "broken")
    assert answer.status_code == 422
    assert "correct the policy" in problem_of(answer)["hint"]
