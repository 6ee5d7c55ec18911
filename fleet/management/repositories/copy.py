from argparse import ArgumentParser
from typing import Any

from backups.upkeep import copies
from declarations.surfaces.commands.base import TerminalCommand, caller
from declarations.unknown import named
from fleet.management.base import add_names, report_enqueued
from sources.models import Assignment, Repository

HELP = (
    "Copy missing points to repositories now, regardless of the windows of the policies that copy there. A worker does "
    "it. Exit codes: 0; 1 when there is nothing to copy, or it is copied already; 2 for bad usage."
)
IDLE = "no policy copies to it (copy_to), nothing is backed up there yet, or everything is copied already"


def add_arguments(parser: ArgumentParser) -> None:
    add_names(parser, "repository")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    rows = [named(Repository.objects, name) for name in dict.fromkeys(options["names"])]
    ids = Assignment.objects.filter(policy__copy_to__in=rows).values_list("pk", flat=True)
    copying = copies.copy_now(ids, by=caller())
    report_enqueued(command, ", ".join(map(str, rows)), copying, IDLE, "sources copy")
