"""Commands that do something about sources by their names."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db.models import QuerySet

from operations.management.base import VerbCommand, without_its_log_lines
from operations.terminal import one_line
from sources.management.names import named
from sources.models import Source


class SourcesCommand(VerbCommand):
    """`act` does it for one source and says what came of it, or raises ValueError: nothing was to be done."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="+", metavar="NAME", help="of a source")
        parser.set_defaults(verb="all")

    def _all(self, options: dict[str, Any]) -> None:
        chosen = [named(Source.objects, name, "source") for name in dict.fromkeys(options["names"])]
        refused = 0
        for source in chosen:
            try:
                with without_its_log_lines():
                    text = self.act(Source.objects.filter(pk=source.pk), options)
            except ValueError as error:
                refused, text = refused + 1, f"nothing was done: {error}"
            self.stdout.write(f"{one_line(source)}: {one_line(text)}")
        if refused:
            raise CommandError(f"{refused} of {len(chosen)} were left as they are", returncode=1)

    def act(self, source: QuerySet[Source], options: dict[str, Any]) -> str:
        raise NotImplementedError
