"""The arguments of `manage.py events`: filters, and what names an event, a schedule or an endpoint."""

from argparse import ArgumentParser, ArgumentTypeError
from datetime import datetime
from typing import Any

from django.core.management.base import CommandError

from delivery.models import Endpoint, EndpointKind, Event
from jobs import durations
from jobs.clock import database_clock
from operations.event_list import Answer, State, with_answers, with_event_id
from schedules.models import Schedule

LARGEST_ID = 2**63 - 1
MOST_LISTED = 10_000
MOST_KNOWN = 20
DEFAULT_LIMIT = 20


def add_filters(parser: ArgumentParser, default: Any) -> None:
    """Add the filters. `default`: of those that are not given."""
    which = parser.add_argument_group("which events")
    which.add_argument(
        "--schedule", default=default, metavar="NAME",
        help="of this schedule: its name or its id; of one that is gone, its name; `test`: of tests of endpoints",
    )  # fmt: skip
    which.add_argument("--endpoint", default=default, metavar="NAME", help="that go to this endpoint: its name or id")
    which.add_argument("--state", default=default, choices=State.values, help="where they are on their way")
    which.add_argument("--answer", default=default, choices=Answer.values, help="what the last attempt was answered")
    which.add_argument("--kind", default=default, choices=EndpointKind.values, help="how they are delivered")
    which.add_argument(
        "--since", default=default, type=_since, metavar="WHEN",
        help="that ended since then (of a state that ends), else were put on the backlog: 2026-03-02, 90m, 2h or 7d",
    )  # fmt: skip
    which.add_argument(
        "--limit", default=default, type=_count, metavar="N", help=f"no more than so many ({DEFAULT_LIMIT})"
    )


def find_schedule(named: str) -> Schedule | None:
    """The one with that name or id. Raises: ValueError for what cannot be a name."""
    if "\0" in named:
        raise no_schedule(named)
    found = Schedule.objects.filter(name=named).first()
    return found or (Schedule.objects.filter(pk=int(named)).first() if _is_id(named) else None)


def no_schedule(named: str) -> ValueError:
    """That nothing is known of a schedule, naming some that there are."""
    delivering = Schedule.objects.filter(kind__in=EndpointKind.values).order_by("name")
    known = list(delivering.values_list("name", flat=True)[:MOST_KNOWN])
    there_are = f"there are {', '.join(known)}" if known else "there is none that delivers"
    return ValueError(f"there is no schedule {named!r}, nor such an event of one that was; {there_are}")


def find_endpoint(named: str) -> int:
    """The id of the one with that name or id; also one that is gone has an id. Raises: ValueError naming some."""
    found = Endpoint.objects.filter(name=named).first() if "\0" not in named else None
    if found is None and not _is_id(named):
        known = list(Endpoint.objects.order_by("name").values_list("name", flat=True)[:MOST_KNOWN])
        there_are = f"there are {', '.join(known)}" if known else "there is none"
        raise ValueError(f"there is no endpoint {named!r}; {there_are}")
    return found.pk if found else int(named)


def find_event(named: str) -> Event:
    """Raises: CommandError, with code 2 for what is no id, as event ids have numbers."""
    events = with_answers(Event.objects.all())
    found: Event | None = None
    if _is_id(named):
        found = events.filter(pk=int(named)).first()
    elif "\0" not in named:
        found = with_event_id(events, named).order_by("-pk").first()
    if found is None:
        code = 1 if any(map(str.isdigit, named)) else 2
        raise CommandError(f"there is no event {named}; `manage.py events list` shows some", returncode=code)
    return found


def _is_id(named: str) -> bool:
    return named.isascii() and named.isdigit() and int(named) <= LARGEST_ID


def _since(said: str) -> datetime:
    try:
        return durations.instant(said, database_clock())
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _count(said: str) -> int:
    if not (said.isascii() and said.isdigit() and 0 < int(said[:9]) <= MOST_LISTED and len(said) < 9):
        raise ArgumentTypeError(f"{said!r} is not a number from 1 to {MOST_LISTED:,}")
    return int(said)
