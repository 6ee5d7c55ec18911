"""`preview` of policies, and of the sources under them."""

from typing import Any

from rich.console import Group
from rich.text import Text

from declarations.surfaces.commands.base import TerminalCommand
from declarations.surfaces.terminal import columns, plain, table
from operations.management.schedules.preview import add_options as add_options
from operations.management.schedules.preview import instant_of_option
from schedules.time_limits import LONGEST_LOOK_SECONDS
from sources.domain.preview import PreviewedPeriod
from sources.models import Policy
from sources.planning.previews import HEADERS, as_json, holidays_of, lost_of, preview, rows_of

HELP = (
    "Show the next periods of a policy with the openings of its window in them: local time in the policy's zone, UTC "
    "next to it, and lengths, which differ where clocks change. Writes nothing. Exit code 2 for bad usage."
)


def show(command: TerminalCommand, policy: Policy, options: dict[str, Any]) -> None:
    """Print the periods of a policy. Raises: ValueError for an instant or a count that makes no sense."""
    start = instant_of_option(options["start"], policy.schedule)
    periods = preview(policy, options["count"], start, seconds=LONGEST_LOOK_SECONDS)
    command.answer(as_json(policy, periods), _view(policy, periods))


def _view(policy: Policy, periods: list[PreviewedPeriod]) -> Group:
    schedule = policy.schedule
    about = f"{schedule.name}: `{schedule.cron}` in {schedule.zone}"
    title = Text(about if schedule.enabled else f"{about}; it is disabled, so nothing is backed up", style="bold")
    lost = (Text(f"not kept of {kind} sources: {'; '.join(each)}") for kind, each in lost_of(policy).items())
    closed = ", ".join(f"{day:%a %Y-%m-%d} {name}" for day, name in holidays_of(policy, periods))
    holidays = [plain(Text(f"the next holidays, on which no range begins: {closed}"))] if closed else []
    return Group(plain(title), table(columns(*HEADERS), rows_of(policy, periods)), *holidays, *lost)
