from argparse import ArgumentParser
from contextlib import AbstractContextManager
from typing import Any

from django.core.management.base import CommandError

from backups.restores import process, requests
from declarations.surfaces.commands.base import TerminalCommand
from declarations.surfaces.terminal import one_line
from declarations.unknown import named
from jobs.clock import database_clock
from sources.models import Source
from storage.points.store import StorageFailed
from storage.points.trees import Tree
from storage.recover import showing

LONGEST_LOOK_SECONDS = 3600.0
"""The limit of the first look at a point of many files: an operator at a terminal may wait, and end it."""
HELP = (
    "Show the points of a source, the newest first; with --at or --path what a folder held in one. Exit codes: 0; 2 "
    "for bad usage, and where a repository does not answer or is not where it was."
)


def add_arguments(parser: ArgumentParser) -> None:
    add_source(parser)
    showing.add_point(parser, "the policy")


def add_source(parser: ArgumentParser) -> None:
    """Add the arguments that select the points of a source, and the repository."""
    parser.add_argument("source", metavar="NAME", help="of a source")
    name = showing.given("one")
    parser.add_argument("--policy", type=name, metavar="NAME", help="under which it was backed up, if it has several")
    parser.add_argument(
        "--from", type=name, metavar="NAME", dest="repository",
        help="the repository: that of its backups, or one with copies of them (the first that has the point)",
    )  # fmt: skip


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    assignment = requests.assignment_of(named(Source.objects, options["source"]), options["policy"])
    zone = assignment.policy.schedule.period.tzinfo
    try:
        points = requests.points_of(assignment, options["repository"])

        def tree_of(point: str) -> AbstractContextManager[Tree]:
            return process.tree_of(points[point], assignment.directory, point, LONGEST_LOOK_SECONDS)

        rows, line = showing.listed(list(points), tree_of, options, database_clock(), zone)
    except StorageFailed as error:
        raise CommandError(one_line(error), returncode=2) from error
    command.answer(rows, "\n".join(map(line, rows)) or "nothing")
