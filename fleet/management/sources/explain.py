from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand
from external import durations
from fleet.explaining import explain_source
from fleet.explaining.groups import explain_all
from fleet.explaining.rendering import GROUPS, group_row, lines
from fleet.management.base import sources_named
from jobs.clock import database_clock
from sources.models import Source

HELP = (
    "Show every reason why the backups of a source do not run, in the order in which they would have to end; "
    "docs/reasons.md has the codes. With --all: all sources by the first reason of each. Exit codes: 0; 2 for bad "
    "usage."
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a source; several may be given")
    parser.add_argument("--policy", metavar="NAME", help="under this policy alone")
    parser.add_argument("--at", metavar="TIME", help="as it was then: 3h (ago), or 2026-03-02T12:00 (UTC)")
    parser.add_argument("--all", action="store_true", help="all sources, by the first reason of each")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    now = database_clock()
    if options["all"]:
        if options["names"] or options["policy"] is not None or options["at"] is not None:
            raise ValueError("--all is of all sources, now; leave out NAME, --policy and --at")
        facts = [each.as_facts for each in explain_all(now)]
        command.list_out(facts, GROUPS, group_row, "There are no sources.")
        return
    if not options["names"]:
        raise ValueError("name a source, or use --all")
    at = durations.instant(options["at"], now) if options["at"] is not None else None

    def explain(source: Source) -> None:
        found = explain_source(source, now, policy=options["policy"], at=at)
        command.answer([each.as_facts for each in found], *lines(source, found))

    command.one_by_one(sources_named(options["names"]), explain)
