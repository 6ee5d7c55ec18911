from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand
from declarations.surfaces.terminal import one_line
from declarations.unknown import named
from external.formatting import moment
from jobs.clock import database_clock
from operations.backlog.rendering import reasons_view
from operations.management.schedules.preview import instant_of_option
from operations.trigger_reasons import explain_schedule
from schedules.models import Schedule

HELP = (
    "Show why a schedule did not fire at a time, or what keeps it from firing now, and when it fires next. Exit codes: "
    "0; 2 for bad usage."
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of the schedule, or of a policy")
    parser.add_argument(
        "--at", metavar="INSTANT", help="such as 2026-03-28T02:00 in its zone, or with an offset (when it fires next)"
    )


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    schedule = named(Schedule.objects, options["name"])
    at = instant_of_option(options["at"], schedule, "--at")
    found = explain_schedule(schedule, database_clock(), at)
    command.answer(
        {"name": schedule.name} | found.as_facts,
        one_line(f"{schedule} at {moment(found.at)} UTC"),
        *reasons_view(found),
    )
