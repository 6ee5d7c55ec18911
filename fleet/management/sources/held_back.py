from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand
from declarations.surfaces.terminal import columns
from external.formatting import moment
from jobs.conf import PROGRAM
from sources.models import Assignment

HELP = (
    "List the assignments whose backup looked wrong compared with those before it, whose points all stay until an "
    f"operator has looked: `{PROGRAM} sources accept NAME` accepts it. Exit codes: 0; 2 for bad usage."
)
COLUMNS = columns("source", "policy", "since (UTC)", "why")
NAMES = ("source__name", "policy__schedule__name", "held_back_since", "held_back_why")
KEYS = ("source", "policy", "since", "why")


def add_arguments(parser: ArgumentParser) -> None:
    pass


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    found = Assignment.objects.filter(held_back_since__isnull=False).order_by("held_back_since").values_list(*NAMES)
    facts = [dict(zip(KEYS, row, strict=True)) for row in found]
    command.list_out(facts, COLUMNS, _row, "Nothing is held back.")


def _row(facts: dict[str, Any]) -> tuple[object, ...]:
    return facts["source"], facts["policy"], moment(facts["since"]), facts["why"]
