from argparse import ArgumentParser
from typing import Any

from backups.upkeep import copies
from declarations.surfaces.commands.base import TerminalCommand, caller
from declarations.surfaces.terminal import columns
from external.formatting import moment
from fleet.management.base import add_names_to_ask_for, facts_by, of_sources, report_enqueued
from sources.models import Copy

HELP = (
    "Show the copies of sources in other repositories: when each last had all points, and since when one is missing; "
    "with a NAME: copy that source now, regardless of its window. A worker does it. Exit codes: 0; 1 when there is "
    "nothing to copy, or it is copied already; 2 for bad usage."
)
COLUMNS = columns("source", "policy", "repository", "last success (UTC)", "points", "behind since (UTC)", "error")
FACTS = {
    "source": "assignment__source__name",
    "policy": "assignment__policy__schedule__name",
    "repository": "repository__name",
    "copied_at": "copied_at",
    "points": "points",
    "to_copy_since": "assignment__to_copy_since",
    "error": "error",
}
EMPTY = "There are no copies: a policy asks for them by `copy_to`, and they come after its next backups."
IDLE = "it has no backup, its policy names no second repository (copy_to), or it is copied already"


def add_arguments(parser: ArgumentParser) -> None:
    add_names_to_ask_for(parser, "copied")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    if not options["names"]:
        command.list_out(facts_by(Copy.objects, FACTS), COLUMNS, _row, EMPTY)
        return
    what, ids = of_sources(options["names"])
    report_enqueued(command, what, copies.copy_now(ids, by=caller()), IDLE, "sources copy")


def _row(found: dict[str, Any]) -> tuple[object, ...]:
    *names, copied, points, behind, error = found.values()
    return *names, moment(copied), len(points), moment(behind), error
