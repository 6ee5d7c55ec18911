from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from backups.restores import requests
from backups.upkeep import foreign_points
from backups.upkeep.foreign_points import ForeignPoint
from declarations.surfaces.commands.base import VerbCommand, person
from declarations.surfaces.terminal import columns, one_line
from declarations.unknown import named
from external.formatting import several
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from sources.models import Repository, Source

HOW = (
    f"say `{PROGRAM} foreign SOURCE`, `{PROGRAM} foreign accept SOURCE --at POINT`, `{PROGRAM} foreign accept SOURCE "
    f"--all`, or `{PROGRAM} foreign accept --all --from REPOSITORY`"
)
NONE = "No point of it is foreign."
COLUMNS = columns("policy", "repository", "point", "files", "bytes", "SHA-256 of its manifest")


class Command(VerbCommand):
    help = (
        "Show the foreign points of a SOURCE: those in its repositories that no backup or copy of ours has written as "
        "they are, as their manifests say of themselves. accept SOURCE --at POINT: take one for ours as it is, which "
        "drills, copies and retention do from then on. accept SOURCE --all, accept --all --from REPOSITORY: all of a "
        "source, or of all sources in a repository, but for points of the future, after one question that says how "
        "many there are and from when. Exit codes: 0; 1 when a repository does not answer, or there is no such foreign "
        "point; 2 for bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("words", nargs="+", metavar="[accept] SOURCE", help="name of a source")
        parser.add_argument("--policy", metavar="NAME", help="under which it was backed up, if it has several")
        parser.add_argument("--from", metavar="NAME", dest="repository", help="the repository (all that have it)")
        parser.add_argument("--at", action="append", default=[], metavar="POINT", help="its name; several: once more")
        parser.add_argument("--all", action="store_true", help="accept all that there are")
        parser.add_argument("--yes", action="store_true", help="accept without asking")
        parser.add_argument("--json", action="store_true", help="print a list of {policy, repository, name, digest, …}")
        parser.set_defaults(verb="work")

    def _work(self, options: dict[str, Any]) -> None:
        *verb, name = options["words"]
        everything, some, repository = options["all"], bool(options["at"]), options["repository"]
        if ([*verb, name], everything, some) == (["accept"], True, False) and repository:
            found, failed = foreign_points.in_repository(named(Repository.objects, repository))
        elif (verb, everything or some) in (([], False), (["accept"], True)) and not (everything and some):
            assignment = requests.assignment_of(named(Source.objects, name), options["policy"])
            found, failed = foreign_points.of(assignment, repository)
        else:
            raise ValueError(HOW)
        if options["all"]:
            self._accept_all(found, options)
        elif verb:
            self._accept([each for each in found if each.name in options["at"]], options["at"])
        else:
            facts = [_facts(each) for each in found]
            self.list_out(facts, COLUMNS, lambda each: list(each.values())[:6], NONE)
        if failed:
            raise CommandError("; ".join(map(one_line, failed)), returncode=1)

    def _accept_all(self, found: list[ForeignPoint], options: dict[str, Any]) -> None:
        found, future = foreign_points.of_the_past(found, database_clock())
        if future:
            self.stdout.write(f"{one_line(foreign_points.described(future))}: of the future, and left as they are")
        if not found:
            self.stdout.write(NONE)
            return
        question = one_line(f"Take {foreign_points.described(found)}, for ours, as they are?")
        if self.is_agreed(options, question, "add --yes to accept them"):
            for each in found:
                foreign_points.accept(each, by=person())
            self.stdout.write(f"{several(len(found), 'point')}: ours from now on")

    def _accept(self, chosen: list[ForeignPoint], asked: list[str]) -> None:
        if missing := set(asked) - {each.name for each in chosen}:
            text = f"there is no foreign point {', '.join(sorted(missing))} that can be read: nothing was changed"
            raise CommandError(text, returncode=1)
        for each in chosen:
            foreign_points.accept(each, by=person())
            self.stdout.write(f"{one_line(each.repository)}: point {each.name} is ours from now on")


def _facts(point: ForeignPoint) -> dict[str, Any]:
    facts = {"policy": str(point.assignment.policy), "repository": point.repository.name}
    return facts | {key: point.facts[key] for key in ("name", "files", "size", "digest", "engine", "ended_at")}
