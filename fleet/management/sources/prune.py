from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand
from fleet.management.base import add_names, sources_named
from fleet.management.pruning import HELP as HELP
from fleet.management.pruning import add_options, prune


def add_arguments(parser: ArgumentParser) -> None:
    add_names(parser)
    add_options(parser)


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    prune(command, options, source__in=sources_named(options["names"]))
