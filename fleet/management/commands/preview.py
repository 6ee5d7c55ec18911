from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from rich.console import Group
from rich.text import Text

from declarations.surfaces.commands.base import VerbCommand
from declarations.surfaces.terminal import columns, plain, table
from declarations.unknown import named
from external.durations import span
from external.formatting import moment, several
from operations.capacity import messages_view
from schedules import previews
from schedules.capacity_report import Message
from schedules.cron import check_zone, instant_of
from schedules.models import Schedule
from schedules.previews import ComingBatch, coming_batches
from schedules.time_limits import LONGEST_LOOK_SECONDS
from sources.domain.preview import PreviewedPeriod
from sources.models import Policy
from sources.planning.previews import HEADERS, LARGEST_COUNT, as_json, holidays_of, lost_of, preview, rows_of

YEARS = range(1970, 2200)
"""Of `--from`: in which the rules of time zones are known or can be continued."""

OF_SCHEDULE = columns("trigger", "UTC", "first event", "last event", "window closes")
EXAMPLES = "write 2026-03-28T22:00 (in the zone of the policy or schedule) or 2026-03-28T21:00+00:00"


class Command(VerbCommand):
    help = (
        "Show the next periods of a policy with the openings of its window in them: local time in the policy's zone, "
        "UTC beside it, and lengths, which differ where clocks change. Of another schedule: its next triggers, when "
        "the first and the last event of each batch start, and whether it completes in its window. Writes nothing. "
        "Exit code 2 for bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("policy", metavar="NAME", help="of the policy or schedule")
        parser.add_argument(
            "--count", type=int, default=10, metavar="N", help=f"so many periods or triggers, 1 to {LARGEST_COUNT} (10)"
        )
        parser.add_argument(
            "--from",
            dest="start",
            metavar="INSTANT",
            help="those that begin then or later, as 2026-03-28T22:00 in its zone, or with an offset (now)",
        )
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.set_defaults(verb="preview")

    def _preview(self, options: dict[str, Any]) -> None:
        schedule = named(Schedule.objects.select_related("throttle"), options["policy"], word="policy or schedule")
        start = _instant(options["start"], schedule) if options["start"] is not None else None
        policy = Policy.objects.select_related("schedule").filter(schedule=schedule).first()
        if policy:
            periods = preview(policy, options["count"], start, seconds=LONGEST_LOOK_SECONDS)
            facts, view = as_json(policy, periods), _view(policy, periods)
        else:
            batches = coming_batches(schedule, options["count"], start, seconds=LONGEST_LOOK_SECONDS)
            facts = previews.as_json(schedule, batches)
            view = _view_of_schedule(schedule, batches, [Message(**each) for each in facts["messages"]])
        self.answer(facts, view)


def _instant(text: str, schedule: Schedule) -> datetime:
    """ISO 8601 with an offset, or else the wall clock time of its zone. Raises: ValueError with an example."""
    check_zone(schedule.zone)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"--from {text!r} is not an instant; {EXAMPLES}") from None
    if parsed.year not in YEARS:
        raise ValueError(f"--from {text!r} is out of range; choose a year from {YEARS[0]} to {YEARS[-1]}")
    return parsed.astimezone(UTC) if parsed.tzinfo else instant_of(parsed, schedule.period.tzinfo)


def _view(policy: Policy, periods: list[PreviewedPeriod]) -> Group:
    schedule = policy.schedule
    about = f"{schedule.name}: `{schedule.cron}` in {schedule.zone}"
    title = Text(about if schedule.enabled else f"{about}; it is disabled, so nothing is backed up", style="bold")
    lost = (Text(f"not kept of {kind} sources: {'; '.join(each)}") for kind, each in lost_of(policy).items())
    closed = ", ".join(f"{day:%a %Y-%m-%d} {name}" for day, name in holidays_of(policy, periods))
    holidays = [plain(Text(f"the next holidays, on which no range begins: {closed}"))] if closed else []
    return Group(plain(title), table(columns(*HEADERS), rows_of(policy, periods)), *holidays, *lost)


def _view_of_schedule(schedule: Schedule, batches: list[ComingBatch], found: list[Message]) -> Group:
    """A line a trigger, and the verdict below."""
    zone = schedule.period.tzinfo
    batch = schedule.provider or f"{several(schedule.event_count or 0, 'event')} a trigger"
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
    return Group(plain(Text(about, style="bold")), table(OF_SCHEDULE, rows), messages_view(found))


def _local(instant: datetime, zone: ZoneInfo) -> str:
    return f"{instant.astimezone(zone):%a %Y-%m-%d %H:%M}"


def _utc(instant: datetime) -> str:
    return f"{instant:%m-%d %H:%M}"
