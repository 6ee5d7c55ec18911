from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.core.management.base import BaseCommand, CommandError
from rich.console import Group
from rich.text import Text

from jobs.backlog.facts import as_json as json_text
from jobs.backlog.rendering import Column, plain, table, text_of
from jobs.cron import check_zone, instant_of
from jobs.telling import span
from sources.domain.preview import PreviewedPeriod
from sources.domain.windows import Opening
from sources.models import Policy
from sources.previews import LARGEST_COUNT, as_json, preview

SHOWN_NAMES = 20
YEARS = range(1970, 2200)
"""Of `--from`: in which the rules of time zones are known or can be continued."""

EXAMPLES = "write 2026-03-28T22:00 (in the policy's zone) or 2026-03-28T21:00+00:00"


class Command(BaseCommand):
    help = (
        "Show the next periods of a policy with the openings of its window in them: local time in the policy's zone, "
        "UTC beside it, and lengths, which differ where clocks change. Writes nothing. Exit code 2 for bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("policy", metavar="POLICY", help="its name")
        parser.add_argument(
            "--count", type=int, default=10, metavar="N", help=f"so many periods, 1 to {LARGEST_COUNT} (10)"
        )
        parser.add_argument(
            "--from",
            dest="start",
            metavar="INSTANT",
            help="periods that begin then or later, as 2026-03-28T22:00 in the policy's zone, or with an offset (now)",
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            policy = _policy(options["policy"])
            start = _instant(options["start"], policy) if options["start"] is not None else None
            periods = preview(policy, options["count"], start)
        except ValueError as error:
            raise CommandError(f"{error}", returncode=2) from error
        if options["json"]:
            self.stdout.write(json_text(as_json(policy, periods)))
        else:
            self.stdout.write(text_of(_view(policy, periods), terminal=self.stdout.isatty()))


def _policy(name: str) -> Policy:
    """Raises: ValueError naming the known policies."""
    # PostgreSQL takes no NUL in a text
    if "\0" not in name and (policy := Policy.objects.select_related("schedule").filter(schedule__name=name).first()):
        return policy
    known = list(Policy.objects.order_by("schedule__name").values_list("schedule__name", flat=True)[: SHOWN_NAMES + 1])
    if not known:
        raise ValueError(f"there is no policy {name!r}, nor any other; make one in the admin or with import_fleet")
    shown = ", ".join(known[:SHOWN_NAMES]) + (", …" if len(known) > SHOWN_NAMES else "")
    raise ValueError(f"there is no policy {name!r}; the policies are: {shown}")


def _instant(text: str, policy: Policy) -> datetime:
    """ISO 8601 with an offset, or else the wall clock time of the policy's zone. Raises: ValueError with an example."""
    check_zone(policy.schedule.zone)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"--from {text!r} is not an instant; {EXAMPLES}") from None
    if parsed.year not in YEARS:
        raise ValueError(f"--from {text!r} is out of range; choose a year from {YEARS[0]} to {YEARS[-1]}")
    return parsed.astimezone(UTC) if parsed.tzinfo else instant_of(parsed, policy.schedule.period.tzinfo)


def _view(policy: Policy, periods: list[PreviewedPeriod]) -> Group:
    """A line an opening; a period's own cells stand in its first line only."""
    schedule = policy.schedule
    zone = schedule.period.tzinfo
    about = f"{schedule.name}: `{schedule.cron}` in {schedule.zone}"
    title = Text(about if schedule.enabled else f"{about}; it is disabled, so nothing is backed up", style="bold")
    columns = [Column("period begins"), Column("UTC"), Column("lasts", number=True), Column("opens"), Column("closes")]
    columns += [Column("UTC"), Column("open for", number=True), Column("")]
    rows = [row for period in periods for row in _rows(period, zone)]
    return Group(plain(title), table(columns, rows))


def _rows(period: PreviewedPeriod, zone: ZoneInfo) -> list[tuple[str, ...]]:
    own = (_local(period.begins_at, zone), _utc(period.begins_at), span(_seconds(period.begins_at, period.ends_at)))
    if not period.openings:
        return [(*own, "", "", "", "", period.warning)]
    heads = [own, *[("", "", "")] * (len(period.openings) - 1)]
    return [(*head, *_opening_cells(opening, zone)) for head, opening in zip(heads, period.openings, strict=True)]


def _opening_cells(opening: Opening, zone: ZoneInfo) -> tuple[str, ...]:
    return (
        _local(opening.opens_at, zone),
        _closes(opening, zone),
        f"{_utc(opening.opens_at)} – {_utc(opening.closes_at)}",
        span(_seconds(opening.opens_at, opening.closes_at)),
        "",
    )


def _closes(opening: Opening, zone: ZoneInfo) -> str:
    """Without its date where the weekday tells it."""
    if opening.closes_at - opening.opens_at > timedelta(days=5):
        return _local(opening.closes_at, zone)
    return f"{opening.closes_at.astimezone(zone):%a %H:%M}"


def _local(instant: datetime, zone: ZoneInfo) -> str:
    return f"{instant.astimezone(zone):%a %Y-%m-%d %H:%M}"


def _utc(instant: datetime) -> str:
    return f"{instant:%m-%d %H:%M}"


def _seconds(begins_at: datetime, ends_at: datetime) -> float:
    return (ends_at - begins_at).total_seconds()
