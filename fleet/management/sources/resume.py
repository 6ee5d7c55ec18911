from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand, caller
from fleet.management.base import add_names, do_each, sources_named
from sources import planning
from sources.models import Source

HELP = "Back up paused sources again; due ones at once. Exit codes: 0; 1 where one was not paused; 2 for bad usage."


def add_arguments(parser: ArgumentParser) -> None:
    add_names(parser)


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    def resume(source: Source) -> str:
        return resumed(planning.resume(Source.objects.filter(pk=source.pk), by=caller()))

    do_each(command, sources_named(options["names"]), resume)


def resumed(changed: int) -> str:
    """The effect of resuming as text. Raises: ValueError when nothing was changed."""
    if not changed:
        raise ValueError("it was not paused")
    return "it is backed up again, at once if it is due"
