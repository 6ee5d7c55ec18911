from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand
from declarations.unknown import named
from fleet.management.periods import HELP as HELP
from fleet.management.periods import add_options, show
from sources.models import Policy


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of the policy")
    add_options(parser)


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    show(command, named(Policy.objects, options["name"], "schedule__name"), options)
