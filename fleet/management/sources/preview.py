from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand
from declarations.unknown import named
from fleet.management.periods import HELP as HELP
from fleet.management.periods import add_options, show
from sources.models import Policy, Source


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of the source")
    parser.add_argument("--policy", metavar="NAME", help="under which, if it has several")
    add_options(parser)


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    source = named(Source.objects, options["name"])
    policies = Policy.objects.filter(assignments__source=source).order_by("schedule__name")
    if options["policy"] is not None:
        show(command, named(policies, options["policy"], "schedule__name"), options)
        return
    names = [str(each) for each in policies.select_related("schedule")]
    if len(names) != 1:
        several = f"is under several policies; name one by --policy: {', '.join(names)}"
        raise ValueError(f"{source} {several if names else 'is under no policy: it has no periods'}")
    show(command, policies.get(), options)
