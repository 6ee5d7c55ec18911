from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand
from declarations.unknown import named
from fleet.management.base import add_names
from fleet.management.pruning import HELP as HELP
from fleet.management.pruning import add_options, prune
from sources.models import Policy


def add_arguments(parser: ArgumentParser) -> None:
    add_names(parser, "policy")
    add_options(parser)


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    names = dict.fromkeys(options["names"])
    prune(command, options, policy__in=[named(Policy.objects, name, "schedule__name") for name in names])
