"""GET /api/policies/{name}/preview."""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from schedules.models import Schedule
from sources.models import Policy
from tests.api.asking import fields_of, problem_of
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


def test_what_cannot_be_previewed_is_refused(admin_client: Client) -> None:
    policy = named("laptops")
    for name in ("nothing", "LAPTOPS"):
        problem_of(get(admin_client, name), 404)
    for field, value in (("count", "0"), ("count", "9" * 5000), ("from", "10000-01-01T00:00:00Z")):
        assert list(fields_of(get(admin_client, "laptops", **{field: value}))) == [field]
    assert get(admin_client, str(policy.pk)).status_code == 200, "by its id, when none has that name"
    Policy.objects.update(window=[{"days": "never"}])
    assert "correct the policy" in problem_of(get(admin_client, "laptops"), 422)["hint"]
