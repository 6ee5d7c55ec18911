from argparse import ArgumentParser
from typing import Any

from backups.upkeep import checks
from declarations.surfaces.commands.base import TerminalCommand, caller
from declarations.surfaces.terminal import columns
from external.formatting import moment
from fleet.management.base import add_names_to_ask_for, list_assignments, of_sources, report_enqueued

HELP = (
    "Show what was last read in repositories and compared with the manifests, and what is damaged; with a "
    "NAME: read the rest of the present round now, regardless of the window, in all repositories of the source. A "
    "worker does it. Exit codes: 0; 1 when there is nothing to check, or it is checked already; 2 for bad "
    "usage."
)
IDLE = "it has no backup, is paused, or its check is on the backlog already"
COLUMNS = columns("source", "policy", "last read (UTC)", "all of it (UTC)", "damaged", "the first of them")
FACTS = {
    "source": "source__name",
    "policy": "policy__schedule__name",
    "checked_at": "check_round__checked_at",
    "ended_at": "check_round__ended_at",
    "damage": "check_round__damage",
}


def add_arguments(parser: ArgumentParser) -> None:
    add_names_to_ask_for(parser, "checked")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    if not options["names"]:
        list_assignments(command, FACTS, COLUMNS, _row)
        return
    what, ids = of_sources(options["names"])
    report_enqueued(command, what, checks.check_now(ids, by=caller()), IDLE, "sources check")


def _row(found: dict[str, Any]) -> tuple[object, ...]:
    source, policy, checked, ended, damage = found.values()
    first = "".join(f"{each['path']} of {each['point']}: {each['why']}" for each in (damage or [])[:1])
    return source, policy, moment(checked), moment(ended), len(damage or []), first
