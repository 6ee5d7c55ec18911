from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from backups.upkeep import foreign_points
from backups.upkeep.foreign_points import ForeignPoint
from declarations.surfaces.commands.base import TerminalCommand, caller
from declarations.surfaces.terminal import one_line
from external.formatting import several
from fleet.management.repositories import foreign
from jobs.clock import database_clock

HELP = (
    "Accept foreign points as they are; from then on drills, copies and retention treat them as points of this "
    "installation: those that --at names, or --all of a source, or of all sources in a repository, except "
    "points in the future, after one question with their number and age. Exit codes: 0; 1 when a repository "
    "does not answer, or there is no such foreign point; 2 for bad usage."
)


def add_arguments(parser: ArgumentParser) -> None:
    foreign.add_arguments(parser)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--at", action="append", default=[], metavar="POINT", help="its name; may be given again")
    which.add_argument("--all", action="store_true", help="accept all foreign points")
    parser.add_argument("--yes", action="store_true", help="accept without asking")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    if options["at"] and options["source"] is None:
        raise ValueError("name the source by --source")
    found, failed = foreign.asked_for(options)
    if options["all"]:
        _accept_all(command, found, options)
    else:
        _accept_some(command, [each for each in found if each.name in options["at"]], options["at"])
    foreign.report(failed)


def _accept_all(command: TerminalCommand, found: list[ForeignPoint], options: dict[str, Any]) -> None:
    for each in found:
        if each.not_of:
            command.stdout.write(f"{one_line(each.not_of)}: left as it is")
    named = [each for each in found if not each.not_of]
    found, future = foreign_points.of_the_past(named, database_clock())
    if future:
        command.stdout.write(f"{one_line(foreign_points.described(future))}: in the future, and left as they are")
    if not found:
        command.stdout.write(foreign.NONE)
        return
    question = one_line(f"Accept {foreign_points.described(found)}, as they are?")
    if command.is_agreed(options, question, "add --yes to accept them"):
        for each in found:
            foreign_points.accept(each, by=caller())
        command.stdout.write(f"{several(len(found), 'point')}: accepted")


def _accept_some(command: TerminalCommand, chosen: list[ForeignPoint], asked: list[str]) -> None:
    if missing := set(asked) - {each.name for each in chosen}:
        text = f"there is no foreign point {', '.join(sorted(missing))} that can be read: nothing was changed"
        raise CommandError(text, returncode=1)
    for each in chosen:
        foreign_points.accept(each, by=caller())
        command.stdout.write(f"{one_line(each.repository)}: point {each.name} is accepted")
