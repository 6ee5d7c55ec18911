from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from backups.upkeep import checks
from declarations.surfaces.commands.base import TerminalCommand, person
from declarations.surfaces.terminal import columns
from external.formatting import moment
from fleet.management.base import ask_for, facts_by, of_sources
from sources.models import Assignment

HELP = (
    "Show what was read last in repositories and compared with the manifests, and what is damaged; with a NAME: read "
    "now all that the round under way has left, whatever the window, in all repositories of the source. A worker does "
    "it. Exit codes: 0; 1 when there is nothing to check, or it is checked already; 2 for bad usage."
)
IDLE = "it has no backup, is paused, or a check of it is on the backlog already"
COLUMNS = columns("source", "policy", "last read (UTC)", "all of it (UTC)", "damaged", "the first of them")
FACTS = {
    "source": "source__name",
    "policy": "policy__schedule__name",
    "checked_at": "check_round__checked_at",
    "ended_at": "check_round__ended_at",
    "damage": "check_round__damage",
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the sources that are checked now")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    if not options["names"]:
        facts = facts_by(Assignment.objects, FACTS)
        command.list_out(facts, COLUMNS, _row, "There are no sources under a policy.")
        return

    def ask(ids: Iterable[int]) -> int:
        return checks.check_now(ids, by=person())

    what, ids = of_sources(options["names"])
    ask_for(command, what, ask, ids, IDLE, "sources check")


def _row(found: dict[str, Any]) -> tuple[object, ...]:
    source, policy, checked, ended, damage = found.values()
    first = "".join(f"{each['path']} of {each['point']}: {each['why']}" for each in (damage or [])[:1])
    return source, policy, moment(checked), moment(ended), len(damage or []), first
