from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import VerbCommand, person, without_its_log_lines
from declarations.surfaces.terminal import one_line
from declarations.unknown import named
from sources.models import Source
from sources.planning import retirement


class Command(VerbCommand):
    help = (
        "Retire sources: they leave all counts, plans and checks, and what runs of them is stopped. Their backups stay "
        "for as long as their policies would have kept them had the backups gone on, and can be restored until then. "
        "--undo: take them into use again. To delete one with or without its backups: remove. Exit codes: 0, also when "
        "that was so before; 2 for bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="+", metavar="NAME", help="of a source")
        parser.add_argument("--undo", action="store_true", help="take them into use again")
        parser.add_argument("--json", action="store_true", help="print {sources, changed}")
        parser.set_defaults(verb="retire")

    def _retire(self, options: dict[str, Any]) -> None:
        sources = [named(Source.objects, name) for name in options["names"]]
        verb, done = (retirement.unretire, "in use again") if options["undo"] else (retirement.retire, "retired")
        with without_its_log_lines():
            changed = verb(sources, by=person())
        names = [each.name for each in sources]
        text = f"{', '.join(names)}: {done}" + ("" if changed else ", as before")
        self.answer({"sources": names, "changed": changed}, one_line(text))
