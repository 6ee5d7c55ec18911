from argparse import ArgumentParser
from typing import Any

from backups.upkeep import checks
from declarations.surfaces.commands.base import TerminalCommand, caller
from declarations.unknown import named
from fleet.management.base import add_names, report_enqueued
from fleet.management.sources.check import IDLE
from sources.models import Repository

HELP = (
    "Read now the rest of the round under way in repositories, regardless of the windows, and compare it with the "
    "manifests. A worker does it. Exit codes: 0; 1 when there is nothing to check, or it is checked already; 2 for bad "
    "usage."
)


def add_arguments(parser: ArgumentParser) -> None:
    add_names(parser, "repository")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    rows = [named(Repository.objects, name) for name in dict.fromkeys(options["names"])]
    lying = {row: list(checks.lying_in(row)) for row in rows}
    checking = sum(checks.check_now(each, by=caller(), repository=row) for row, each in lying.items())
    report_enqueued(command, ", ".join(map(str, rows)), checking, IDLE, "sources check")
