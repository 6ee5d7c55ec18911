"""Commands that list what was last done about each assignment, and with the name of a source ask for it now."""

from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any, ClassVar

from django.core.management.base import CommandError

from operations.backlog.facts import as_json
from operations.management.base import TerminalCommand
from operations.terminal import Column, one_line, table
from sources.management.names import named
from sources.models import Assignment, Source

BY = "a person at the command line"


class AskingCommand(TerminalCommand):
    """`called`: what is asked for; `facts`: key in JSON → path of it from an assignment; `columns`: of the table."""

    called: ClassVar[str]
    facts: ClassVar[dict[str, str]]
    columns: ClassVar[list[Column]]

    def ask(self, ids: Iterable[int]) -> int:
        """Put it on the backlog for these assignments. Returns how many were not there."""
        raise NotImplementedError

    def row(self, found: dict[str, Any]) -> tuple[object, ...]:
        """A row of the table, of the facts about an assignment."""
        raise NotImplementedError

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", nargs="?", metavar="SOURCE", help="name of a source")
        keys = f"print a list of {{{', '.join(self.facts)}}}, or {{enqueued}}"
        parser.add_argument("--json", action="store_true", help=keys)

    def handle(self, *args: Any, **options: Any) -> None:
        if asked := self.named_by(options):
            self._ask(*asked, json=options["json"])
            return
        found = Assignment.objects.order_by("source__name", "policy__schedule__name").values_list(*self.facts.values())
        rows = [dict(zip(self.facts, row, strict=True)) for row in found]
        if options["json"]:
            self.stdout.write(as_json(rows))
        else:
            self.print_out(table(self.columns, map(self.row, rows)))

    def named_by(self, options: dict[str, Any]) -> tuple[object, Iterable[int]] | None:
        """What is named, and its assignments; None: nothing is."""
        if options["source"] is None:
            return None
        source = named(Source.objects, options["source"], "source")
        return source, source.assignments.values_list("pk", flat=True)

    def _ask(self, what: object, ids: Iterable[int], *, json: bool) -> None:
        if not (enqueued := self.ask(ids)):
            text = f"it has no backup, is paused, or a {self.called} of it is on the backlog already"
            raise CommandError(f"{one_line(what)}: nothing was put on the backlog: {text}", returncode=1)
        command = type(self).__module__.rpartition(".")[2]
        text = f"{one_line(what)}: {enqueued} put on the backlog; `{command}` shows what comes of it"
        self.stdout.write(as_json({"enqueued": enqueued}) if json else text)
