from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from backups.restores import drills
from declarations.surfaces.commands.base import TerminalCommand, person
from declarations.surfaces.terminal import columns
from external.formatting import moment
from fleet.management.base import ask_for, facts_by, of_sources
from sources.models import Assignment

HELP = (
    "Show what was last proved restorable by a drill, and when; with a NAME: drill that source now, whatever its "
    "window. A drill restores the newest point, or a sample of it, into scratch space, and compares it; a database "
    "into a scratch server. A worker does it. Exit codes: 0; 1 when there is nothing to drill, or it is drilled "
    "already; 2 for bad usage."
)
IDLE = "it has no backup, is paused, or a drill of it is on the backlog already"
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
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the sources that are drilled now")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    if not options["names"]:
        facts = facts_by(Assignment.objects, FACTS)
        command.list_out(facts, COLUMNS, _row, "There are no sources under a policy.")
        return

    def ask(ids: Iterable[int]) -> int:
        return drills.drill_now(ids, by=person())

    what, ids = of_sources(options["names"])
    ask_for(command, what, ask, ids, IDLE, "restores drill")


def _row(found: dict[str, Any]) -> tuple[object, ...]:
    source, policy, last, proved, point, error, _ = found.values()
    return source, policy, moment(last), moment(proved), point, error
