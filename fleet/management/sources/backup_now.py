from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand, caller
from external.formatting import several
from fleet.management.base import add_names, do_each, sources_named
from fleet.status import reasons_of
from jobs.clock import database_clock
from sources import planning
from sources.models import Assignment, Source

HELP = (
    "Back up sources now, under all their policies that are enabled, regardless of period and window. What is copied "
    "already is left alone. Exit codes: 0; 1 where there was nothing to do; 2 for bad usage."
)


def add_arguments(parser: ArgumentParser) -> None:
    add_names(parser)


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    do_each(command, sources_named(options["names"]), _back_up)


def _back_up(source: Source) -> str:
    moved = planning.back_up_now(Assignment.objects.filter(source=source), asked_by=caller())
    if not moved:
        raise ValueError(reasons_of([source], database_clock())[source.pk])
    return f"{several(moved, 'backup')} put at the head of the backlog"
