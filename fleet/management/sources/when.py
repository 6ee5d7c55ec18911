from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand
from declarations.surfaces.terminal import one_line
from declarations.unknown import named
from fleet.explaining import expected_starts
from jobs.clock import database_clock
from sources.models import Source

HELP = (
    "Show when the backups of sources are expected to start, by running the claims of the present forward; or "
    "why there is no estimate. Exit codes: 0; 2 for bad usage."
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME", help="of a source")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    now, facts, shown = database_clock(), list[dict[str, Any]](), list[str]()
    for source in [named(Source.objects, name) for name in dict.fromkeys(options["names"])]:
        found = expected_starts(source, now)
        facts += [{"source": source.name, "policy": policy} | asdict(each) for policy, each in found]
        shown += [one_line(f"{source} under {policy}: {each.text}") for policy, each in found]
        shown += [] if found else [one_line(f"{source}: it is under no policy")]
    command.answer(facts, *shown)
