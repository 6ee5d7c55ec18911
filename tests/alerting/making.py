"""Routes, and sources in need, for the tests of alerts."""

from datetime import datetime, timedelta
from itertools import count
from typing import Any

import fleet.conditions  # noqa: F401 - declares conditions
from alerting import announcements, raising, watching
from alerting.models import AlertKind, AlertMessage, AlertRoute
from external.processes.serving import Program
from operations.conditions import look_at
from operations.finding import CONDITIONS
from sealing.encryption import seal
from sealing.models import StoredSecret
from sources.models import Assignment, Policy
from tests.sources.factories import backed_up, make_policy

_numbers = count(1)
MINUTE = timedelta(minutes=1)
NO_ROOM = Program("tests.alerting.no_room", {})
"""In place of the process that sends: it ends at once, and Apprise takes a second to start."""


def make_route(url: str = "json://127.0.0.1:1/hook", **fields: Any) -> AlertRoute:
    """One that gets everything."""
    number = next(_numbers)
    StoredSecret.objects.create(name=f"alert-{number}", sealed=seal(url))
    return AlertRoute.objects.create(**({"name": f"route {number}", "url": f"stored:alert-{number}"} | fields))


def failing(policy: Policy | None = None, failures: int = 2, **fields: Any) -> Assignment:
    """A source that failed a few times in a row, an hour after its last backup."""
    policy = policy or make_policy()
    return backed_up(policy, AT - timedelta(hours=1), failures=failures, first_failure_at=AT, **fields)


AT = datetime.fromisoformat("2026-03-02T12:00:00+00:00")


OF_THE_SCHEDULER = (*watching.BROKEN, AlertKind.HOLD)


def look(now: datetime, *found: raising.FoundAlert) -> list[AlertMessage]:
    """One round without what is wrong with the scheduler itself. Returns the messages that it wrote down."""
    before = set(AlertMessage.objects.values_list("pk", flat=True))
    kinds = [kind for kind, alert in watching.KINDS.items() if alert not in OF_THE_SCHEDULER]
    around = look_at(now, lambda now: None)
    conditions = [each for kind in kinds for each in CONDITIONS[kind].examine(around)]
    raising.look(now, [*found, *watching.alerts(conditions, around)])
    announcements.announce(now)
    return list(AlertMessage.objects.exclude(pk__in=before).order_by("pk"))
