from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand, caller
from fleet.management.base import add_names, do_each, sources_named
from jobs.conf import PROGRAM
from sources.models import Source
from sources.planning import held_back

HELP = (
    f"Accept backups that are held back, as `{PROGRAM} sources held-back` lists them: they are right as they "
    "are, and points are removed again as their policies say. Exit codes: 0; 1 where nothing is held back; 2 "
    "for bad usage."
)


def add_arguments(parser: ArgumentParser) -> None:
    add_names(parser)


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    do_each(command, sources_named(options["names"]), _accept)


def _accept(source: Source) -> str:
    if not held_back.accept(list(source.assignments.values_list("pk", flat=True)), by=caller()):
        raise ValueError("nothing is held back")
    return "accepted; its points are removed again as its policies say"
