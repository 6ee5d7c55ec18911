from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand, caller
from declarations.surfaces.terminal import one_line
from fleet.management.base import add_names, sources_named
from jobs.conf import PROGRAM
from sources.planning import retirement

HELP = (
    "Retire sources: they leave all counts, plans and checks, and their running work is stopped. Their backups stay "
    "for as long as their policies would have kept them if the backups had continued, and can be restored until then. "
    f"--undo: put them back into use. To delete one with or without its backups: `{PROGRAM} sources remove`. Exit "
    "codes: 0, also when that was so before; 2 for bad usage."
)


def add_arguments(parser: ArgumentParser) -> None:
    add_names(parser)
    parser.add_argument("--undo", action="store_true", help="put them back into use")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    sources = sources_named(options["names"])
    verb, done = (retirement.unretire, "in use again") if options["undo"] else (retirement.retire, "retired")
    changed = verb(sources, by=caller())
    names = [each.name for each in sources]
    text = f"{', '.join(names)}: {done}" + ("" if changed else ", as before")
    command.answer({"sources": names, "changed": changed}, one_line(text))
