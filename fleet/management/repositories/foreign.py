from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from backups.restores import requests
from backups.upkeep import foreign_points
from backups.upkeep.foreign_points import ForeignPoint
from declarations.surfaces.commands.base import TerminalCommand
from declarations.surfaces.terminal import columns, one_line
from declarations.unknown import named
from sources.models import Repository, Source

HELP = (
    "Show the foreign points of a source, or of all sources in a repository: those that were not written as "
    "they are by a backup or copy of this installation, as their manifests describe them. Exit codes: 0; 1 "
    "when a repository does not answer; 2 for bad usage."
)
NONE = "No point is foreign."
COLUMNS = columns("policy", "repository", "point", "files", "bytes", "SHA-256 of its manifest")
KEYS = ("name", "files", "size", "digest", "engine", "ended_at")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("repository", nargs="?", metavar="NAME", help="of the repository (all that have the source)")
    parser.add_argument("--source", metavar="NAME", help="only of this source (all in the repository)")
    parser.add_argument("--policy", metavar="NAME", help="under which it was backed up, if it has several")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    found, failed = asked_for(options)
    facts = [_facts(each) for each in found]
    command.list_out(facts, COLUMNS, lambda each: list(each.values())[:6], NONE)
    report(failed)


def asked_for(options: dict[str, Any]) -> tuple[list[ForeignPoint], list[str]]:
    """The foreign points of a source, or of a whole repository, and the repositories that did not answer. Raises:
    ValueError.
    """
    repository, source = options["repository"], options["source"]
    if source is not None:
        assignment = requests.assignment_of(named(Source.objects, source), options["policy"])
        return foreign_points.of(assignment, repository)
    if repository is None:
        raise ValueError("name the repository, or the source by --source")
    return foreign_points.in_repository(named(Repository.objects, repository))


def report(failed: list[str]) -> None:
    """Raises: CommandError with code 1 when any did not answer."""
    if failed:
        raise CommandError("; ".join(map(one_line, failed)), returncode=1)


def _facts(point: ForeignPoint) -> dict[str, Any]:
    facts = {"policy": str(point.assignment.policy), "repository": point.repository.name}
    return facts | {key: point.facts[key] for key in KEYS}
