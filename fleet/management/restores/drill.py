from argparse import ArgumentParser
from typing import Any

from backups.restores import drills
from declarations.surfaces.commands.base import TerminalCommand, caller
from declarations.surfaces.terminal import columns
from external.formatting import moment
from fleet.management.base import add_names_to_ask_for, list_assignments, of_sources, report_enqueued

HELP = (
    "Show the points that a drill last proved restorable, and when; with a NAME: drill that source now, "
    "regardless of its window. A drill restores the newest point, or a sample of it, into scratch space, and "
    "compares it; a database into a scratch server. A worker does it. Exit codes: 0; 1 when there is nothing "
    "to drill, or it is drilled already; 2 for bad usage."
)
IDLE = "it has no backup, is paused, or its drill is on the backlog already"
COLUMNS = columns("source", "policy", "last success (UTC)", "last proved (UTC)", "point", "why the last drill failed")
FACTS = {
    "source": "source__name",
    "policy": "policy__schedule__name",
    "last_backup_at": "last_backup_at",
    "proved_at": "proved_at",
    "proved_point": "proved_point",
    "error": "drill_error",
    "facts": "drill_facts",
}


def add_arguments(parser: ArgumentParser) -> None:
    add_names_to_ask_for(parser, "drilled")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    if not options["names"]:
        list_assignments(command, FACTS, COLUMNS, _row)
        return
    what, ids = of_sources(options["names"])
    report_enqueued(command, what, drills.drill_now(ids, by=caller()), IDLE, "restores drill")


def _row(found: dict[str, Any]) -> tuple[object, ...]:
    source, policy, last, proved, point, error, _ = found.values()
    return source, policy, moment(last), moment(proved), point, error
