from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from rich.console import Group
from rich.text import Text

from declarations.surfaces.commands.base import TerminalCommand
from declarations.surfaces.terminal import columns, plain, table
from declarations.unknown import named
from external.durations import span
from external.formatting import moment, several
from operations.capacity import messages_view
from schedules import previews
from schedules.capacity_report import PlanMessage
from schedules.cron import check_zone, instant_of
from schedules.models import Schedule
from schedules.previews import LARGEST_COUNT, ComingBatch, coming_batches
from schedules.time_limits import LONGEST_LOOK_SECONDS

YEARS = range(1970, 2200)
"""The years of `--from` in which the rules of time zones are known or can be continued."""

COLUMNS = columns("trigger", "UTC", "first event", "last event", "window closes")
EXAMPLES = "write 2026-03-28T22:00 (in its zone) or 2026-03-28T21:00+00:00"
HELP = (
    "Show the next triggers of a schedule, when the first and the last event of each batch start, and whether it "
    "completes in its window. Writes nothing. Exit code 2 for bad usage."
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of the schedule")
    add_options(parser)


def add_options(parser: ArgumentParser) -> None:
    """Add the arguments that the periods of a policy share."""
    parser.add_argument("--count", type=int, default=10, metavar="N", help=f"how many, 1 to {LARGEST_COUNT} (10)")
    parser.add_argument(
        "--from", dest="start", metavar="INSTANT",
        help="those that begin then or later, such as 2026-03-28T22:00 in its zone, or with an offset (now)",
    )  # fmt: skip


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    schedule = named(Schedule.objects.select_related("throttle"), options["name"])
    start = instant_of_option(options["start"], schedule)
    batches = coming_batches(schedule, options["count"], start, seconds=LONGEST_LOOK_SECONDS)
    facts = previews.as_json(schedule, batches)
    command.answer(facts, _view(schedule, batches, [PlanMessage(**each) for each in facts["messages"]]))


def instant_of_option(text: str | None, schedule: Schedule, option: str = "--from") -> datetime | None:
    """The instant of an option: ISO 8601 with an offset, or else the wall clock time of the schedule's zone; None if
    the option is absent. Raises: ValueError with an example.
    """
    if text is None:
        return None
    check_zone(schedule.zone)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{option} {text!r} is not an instant; {EXAMPLES}") from None
    if parsed.year not in YEARS:
        raise ValueError(f"{option} {text!r} is out of range; choose a year from {YEARS[0]} to {YEARS[-1]}")
    return parsed.astimezone(UTC) if parsed.tzinfo else instant_of(parsed, schedule.period.tzinfo)


def _view(schedule: Schedule, batches: list[ComingBatch], found: list[PlanMessage]) -> Group:
    """Return one line for each trigger, and the verdict below."""
    zone = schedule.period.tzinfo
    batch = schedule.provider or f"{several(schedule.event_count or 0, 'event')} per trigger"
    about = f"{schedule.name}: `{schedule.cron}` in {schedule.zone}, {batch}"
    if schedule.window_for:
        about += f", window of {span(schedule.window_for)}, stagger {schedule.stagger}"
    if not schedule.enabled:
        about += "; it is paused, so none of this happens until it is resumed"
    rows = (
        (
            _local(each.trigger_at, zone),
            _utc(each.trigger_at),
            moment(each.first_at.astimezone(zone)),
            moment(each.last_at.astimezone(zone)),
            _local(each.closes_at, zone) if each.closes_at else "",
        )
        for each in batches
    )
    return Group(plain(Text(about, style="bold")), table(COLUMNS, rows), messages_view(found))


def _local(instant: datetime, zone: ZoneInfo) -> str:
    return f"{instant.astimezone(zone):%a %Y-%m-%d %H:%M}"


def _utc(instant: datetime) -> str:
    return f"{instant:%m-%d %H:%M}"
