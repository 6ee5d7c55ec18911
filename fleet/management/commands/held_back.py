from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from declarations.surfaces.commands.base import VerbCommand, person
from declarations.surfaces.terminal import columns, one_line
from declarations.unknown import named
from external.formatting import moment
from jobs.conf import PROGRAM
from sources.models import Assignment, Source
from sources.planning import held_back

COLUMNS = columns("source", "policy", "since (UTC)", "why")


class Command(VerbCommand):
    help = (
        "Show the assignments whose backup looked wrong beside those before it, of which nothing is removed until a "
        "person has looked. accept SOURCE: it is meant so, and what is kept is removed again as its policy says. Exit "
        "codes: 0; 1 when nothing of that source is held back; 2 for bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("verb", nargs="?", choices=("accept",), help="what to do about one of them")
        parser.add_argument("sources", nargs="*", metavar="SOURCE", help="of which sources")
        parser.add_argument("--json", action="store_true", help="print a list of {source, policy, since, why}")

    def _list(self, options: dict[str, Any]) -> None:
        found = Assignment.objects.filter(held_back_since__isnull=False).order_by("held_back_since")
        names = ("source__name", "policy__schedule__name", "held_back_since", "held_back_why")
        keys = ("source", "policy", "since", "why")
        facts = [dict(zip(keys, row, strict=True)) for row in found.values_list(*names)]
        self.list_out(facts, COLUMNS, _row, "Nothing is held back.")

    def _accept(self, options: dict[str, Any]) -> None:
        if not options["sources"]:
            raise ValueError(f"say which: `{PROGRAM} held_back accept SOURCE`")
        sources = [named(Source.objects, name) for name in dict.fromkeys(options["sources"])]
        idle = []
        for source in sources:
            if held_back.accept(list(source.assignments.values_list("pk", flat=True)), by=person()):
                self.stdout.write(f"{one_line(source)}: accepted; what is kept is removed again as its policy says")
            else:
                idle.append(source.name)
        if idle:
            raise CommandError(f"nothing of {', '.join(idle)} is held back: nothing was changed of it", returncode=1)


def _row(facts: dict[str, Any]) -> tuple[object, ...]:
    return facts["source"], facts["policy"], moment(facts["since"]), facts["why"]
