"""Parts that verbs which take several names share: one action for each name, and work that is requested of a worker."""

from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.core.management.base import CommandError

from declarations.surfaces.commands.base import TerminalCommand
from declarations.surfaces.terminal import Column, one_line
from declarations.unknown import named
from jobs.conf import PROGRAM
from sources.models import Assignment, Source


def add_names(parser: ArgumentParser, title: str = "source") -> None:
    """Add the names that a verb takes, one or more."""
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"of a {title}; several: one after the other")


def sources_named(names: Iterable[str]) -> list[Source]:
    """The sources of these names, each once. Raises: ValueError for an unknown name, naming similar ones."""
    return [named(Source.objects, name) for name in dict.fromkeys(names)]


def do_each(command: TerminalCommand, rows: Sequence[Any], do: Callable[[Any], str]) -> None:
    """Call `do` for each row, and print the results, as JSON {name, changed, text}. `do` returns its result as text,
    and raises ValueError if nothing was to be done. Raises: CommandError with code 1 if that was so for any row.
    """
    refused, facts = 0, []
    for row in rows:
        try:
            changed, text = True, do(row)
        except ValueError as error:
            refused, changed, text = refused + 1, False, f"nothing was done: {error}"
        facts.append({"name": str(row), "changed": changed, "text": text})
    command.answer(facts, "\n".join(f"{one_line(each['name'])}: {one_line(each['text'])}" for each in facts))
    if refused:
        raise CommandError(f"{refused} of {len(rows)} were left as they are", returncode=1)


def report_enqueued(command: TerminalCommand, what: object, enqueued: int, idle: str, see: str) -> None:
    """Print the number of records that were put on the backlog for `what`. `idle`: why it may be 0; `see`: the command
    that shows the results. Raises: CommandError with code 1 if it is 0.
    """
    if not enqueued:
        raise CommandError(f"{one_line(what)}: nothing was put on the backlog: {idle}", returncode=1)
    text = f"{one_line(what)}: {enqueued} put on the backlog; `{PROGRAM} {see}` shows the result"
    command.answer({"enqueued": enqueued}, text)


def add_names_to_ask_for(parser: ArgumentParser, done: str) -> None:
    """Add the names of sources that are `done` now; without one the verb lists all."""
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of the sources that are {done} now")


def list_assignments(
    command: TerminalCommand, paths: dict[str, str], headings: Sequence[Column], row: Callable[..., tuple[object, ...]]
) -> None:
    """List facts about all assignments: `paths` as in `facts_by`; `row` makes the cells of one."""
    command.list_out(facts_by(Assignment.objects, paths), headings, row, "There are no sources under a policy.")


def facts_by(rows: Any, paths: dict[str, str]) -> list[dict[str, Any]]:
    """Facts about each row: key → its path from a row. Ordered by the first three."""
    found = rows.order_by(*list(paths.values())[:3]).values_list(*paths.values())
    return [dict(zip(paths, row, strict=True)) for row in found]


def of_sources(names: Iterable[str]) -> tuple[str, Iterable[int]]:
    """The names of these sources as text, and the ids of their assignments. Raises: ValueError as `sources_named`."""
    sources = sources_named(names)
    ids = Assignment.objects.filter(source__in=sources).values_list("pk", flat=True)
    return ", ".join(map(str, sources)), ids
