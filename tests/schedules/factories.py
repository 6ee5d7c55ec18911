"""Schedules, saved."""

from datetime import datetime
from typing import Any

import pytest

from delivery.models import Endpoint
from jobs.models import Throttle
from schedules.editing import Schedules
from schedules.models import Schedule


def make_endpoint(**fields: Any) -> Endpoint:
    return Endpoint.objects.create(**({"name": "hooks", "url": "https://example.com/hook"} | fields))


def make_throttle(**fields: Any) -> Throttle:
    return Throttle.objects.create(**({"name": "slow", "max_in_flight": 10} | fields))


def emitter_beside(monkeypatch: pytest.MonkeyPatch, next_trigger_at: datetime) -> None:
    """While a schedule is checked before it is saved, an emitter moves its watermark."""
    check = Schedules.problems

    def checked(service: Schedules, schedule: Schedule, changed: set[str] | None) -> dict[str, str]:
        Schedule.objects.filter(pk=schedule.pk).update(next_trigger_at=next_trigger_at)
        return check(service, schedule, changed)

    monkeypatch.setattr(Schedules, "problems", checked)


def make_events(**fields: Any) -> Schedule:
    """A schedule of 100 callbacks, daily at three, spread over an hour."""
    values = {
        "name": "nightly", "cron": "0 3 * * *", "kind": "http_callback", "event_count": 100, "window_for": 3_600,
        "stagger": "even", "payload_template": {"shard": "$number"},
    }  # fmt: skip
    if "endpoint" not in fields:
        values["endpoint"] = Endpoint.objects.filter(name="hooks").first() or make_endpoint()
    return Schedule.objects.create(**(values | fields))
