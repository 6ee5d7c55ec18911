"""What commands of this app share: verbs for named sources, and work that is asked for."""

from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any, ClassVar

from django.core.management.base import CommandError
from django.db.models import QuerySet

from declarations.surfaces.commands.base import VerbCommand, without_its_log_lines
from declarations.surfaces.terminal import Column, one_line
from declarations.unknown import named
from sources.models import Assignment, Policy, Source


class SourcesCommand(VerbCommand):
    """`act` does it for one source and says what came of it, or raises ValueError: nothing was to be done.
    `takes_policies`: with --policy the names are of policies, and `act_on_policy` does it."""

    takes_policies: ClassVar[bool] = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        of = "of a source, or with --policy of a policy" if self.takes_policies else "of a source"
        parser.add_argument("names", nargs="+", metavar="NAME", help=of)
        if self.takes_policies:
            parser.add_argument("--policy", action="store_true", help="the names are of policies")
        parser.set_defaults(verb="all")

    def _all(self, options: dict[str, Any]) -> None:
        names = dict.fromkeys(options["names"])
        if options.get("policy"):
            from fleet.edits import Policies  # loads pydantic, which most commands do without

            chosen: list[Any] = [Policies().named(name) for name in names]
        else:
            chosen = [named(Source.objects, name) for name in names]
        refused = 0
        for row in chosen:
            try:
                with without_its_log_lines():
                    if isinstance(row, Policy):
                        text = self.act_on_policy(row, options)
                    else:
                        text = self.act(Source.objects.filter(pk=row.pk), options)
            except ValueError as error:
                refused, text = refused + 1, f"nothing was done: {error}"
            self.stdout.write(f"{one_line(row)}: {one_line(text)}")
        if refused:
            raise CommandError(f"{refused} of {len(chosen)} were left as they are", returncode=1)

    def act(self, source: QuerySet[Source], options: dict[str, Any]) -> str:
        raise NotImplementedError

    def act_on_policy(self, policy: Policy, options: dict[str, Any]) -> str:
        raise NotImplementedError


class AskingCommand(VerbCommand):
    """It lists what was last done about each assignment, and with names of sources asks for it now.

    `rows`: what is listed; `facts`: key in JSON → its path from a row, those first by which they are ordered;
    `columns`: of the table, and `empty` in its place; `idle`: why nothing may have been put on the backlog.
    """

    rows: ClassVar[Any] = Assignment.objects
    facts: ClassVar[dict[str, str]]
    columns: ClassVar[list[Column]]
    empty: ClassVar[str] = "There are no sources under a policy."
    idle: ClassVar[str]

    def ask(self, ids: Iterable[int]) -> int:
        """Put it on the backlog for these assignments. Returns how many were not there."""
        raise NotImplementedError

    def row(self, found: dict[str, Any]) -> tuple[object, ...]:
        """A row of the table, of the facts about a row."""
        raise NotImplementedError

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("sources", nargs="*", metavar="SOURCE", help="names of sources")
        keys = f"print a list of {{{', '.join(self.facts)}}}, or {{enqueued}}"
        parser.add_argument("--json", action="store_true", help=keys)
        parser.set_defaults(verb="look")

    def _look(self, options: dict[str, Any]) -> None:
        if asked := self.named_by(options):
            self._ask(*asked)
            return
        paths = list(self.facts.values())
        found = self.rows.order_by(*paths[:3]).values_list(*paths)
        facts = [dict(zip(self.facts, row, strict=True)) for row in found]
        self.list_out(facts, self.columns, self.row, self.empty)

    def named_by(self, options: dict[str, Any]) -> tuple[object, Iterable[int]] | None:
        """What is named, and its assignments; None: nothing is."""
        if not options["sources"]:
            return None
        sources = [named(Source.objects, name) for name in dict.fromkeys(options["sources"])]
        ids = Assignment.objects.filter(source__in=sources).values_list("pk", flat=True)
        return ", ".join(map(str, sources)), ids

    def _ask(self, what: object, ids: Iterable[int]) -> None:
        if not (enqueued := self.ask(ids)):
            raise CommandError(f"{one_line(what)}: nothing was put on the backlog: {self.idle}", returncode=1)
        command = type(self).__module__.rpartition(".")[2]
        text = f"{one_line(what)}: {enqueued} put on the backlog; `{command}` shows what comes of it"
        self.answer({"enqueued": enqueued}, text)
