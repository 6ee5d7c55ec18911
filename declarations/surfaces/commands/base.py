"""Common parts of the commands: verbs that are methods, refusals without a traceback, and a question at
the terminal.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from json import dumps
from typing import TYPE_CHECKING, Any, TypeVar

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db.utils import Error, IntegrityError

from declarations import InUse
from declarations.surfaces.patience import TookTooLong, at_most
from declarations.surfaces.terminal import Column, one_line, table, text_of
from jobs import database_errors, schema_check
from jobs.conf import PROGRAM

if TYPE_CHECKING:
    from rich.console import RenderableType

Row = TypeVar("Row")

TAG = "jobs"
"""The tag of the system checks that examine the settings (`manage.py check --tag jobs`), declared in
`operations/checks.py`. Not `database`: those checks are left out unless a database is named.
"""

PATIENCE_SECONDS = 30.0
"""Seconds of a search at a terminal: no index serves it, and the database works as long as it takes."""

CLASHES = "this clashes with a change that was saved in the meantime; nothing was changed. Look again and repeat it."


class TerminalCommand(BaseCommand):
    """A command for users at a terminal: it may ask questions, and draws tables as wide as the terminal. Its answer
    says what was done, so that of the log only warnings and errors are printed.

    It checks the settings alone: other checks load all pages, which takes a second.
    """

    requires_system_checks = [TAG]
    json = False
    """True if JSON was requested."""
    needs_tables = True
    """False for a command that has work to do without tables that this version can use."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        self.json = bool(options.get("json"))
        if self.needs_tables:
            _refuse_newer_tables()
        with only_warnings():
            return super().execute(*args, **options)

    def print_out(self, renderable: "RenderableType") -> None:
        self.stdout.write(text_of(renderable, terminal=self.stdout.isatty()))

    def answer(self, facts: object, *shown: "RenderableType | Callable[[], RenderableType]") -> None:
        """Print a result: `facts` as JSON, or for users `shown`, sentences and drawings."""
        if self.json:
            self.stdout.write(as_json(facts))
            return
        for each in shown:
            found = each() if callable(each) else each
            self.stdout.write(found) if isinstance(found, str) else self.print_out(found)

    def list_out(
        self, facts: Sequence[Any], under: "Sequence[Column]", row: Callable[[Any], Sequence[object]], empty: str
    ) -> None:
        """Print all rows of a kind: as JSON, as a table with the `row` of each, or `empty` if there are none."""
        self.answer(facts, lambda: table(under, map(row, facts)) if facts else empty)

    def show_out(self, facts: Mapping[str, Any]) -> None:
        """One of a kind: as JSON, or a line a fact."""

        def line(name: str, value: object) -> str:
            text = dumps(value) if isinstance(value, list | dict) else value
            return f"{name.replace('_', ' ')}: {one_line(text)}"

        self.answer(facts, lambda: "\n".join(line(name, value) for name, value in facts.items()))

    def one_by_one(self, rows: Sequence[Row], do: Callable[[Row], None]) -> None:
        """Do it for each row, including those after one that was refused or failed. Raises: its exception if there is
        only one row; otherwise CommandError, with code 1, if any failed."""
        failed = 0
        for row in rows:
            try:
                do(row)
            except (CommandError, ValueError) as error:
                if len(rows) == 1:
                    raise
                self.stderr.write(self.style.ERROR(one_line(error)))
                failed += 1
        if failed:
            raise CommandError(f"{failed} of {len(rows)} failed: see above", returncode=1)

    def is_agreed(self, options: dict[str, Any], question: str, otherwise: str = "add --yes") -> bool:
        """Ask whether to continue, unless --yes is given; the user at the terminal reads that otherwise nothing is
        done. Raises: CommandError as `is_confirmed`.
        """
        if options["yes"] or self.is_confirmed(question, otherwise):
            return True
        self.stdout.write("nothing was changed")
        return False

    def is_confirmed(self, question: str, otherwise: str = "add --yes") -> bool:
        """Ask the user at the terminal. Raises: CommandError, with what to do `otherwise`, without a terminal."""
        if not sys.stdin.isatty():
            raise CommandError(f"{question} There is no terminal to ask at: {otherwise}", returncode=2)
        try:
            return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
        except (EOFError, KeyboardInterrupt):
            self.stdout.write("")
            return False


def _refuse_newer_tables() -> None:
    """Raises: CommandError. A database that does not answer is reported by the command itself."""
    try:
        newer = schema_check.newer_tables()
    except Error:
        return
    if newer:
        raise CommandError(newer, returncode=2)


class VerbCommand(TerminalCommand):
    """A command whose argument `verb` names a method: `set-up` is `_set_up(options)`, and no verb is `_list(options)`.

    A ValueError or ValidationError of a method is a mistake of the user: the command ends with code 2. Rows in use are
    not deleted: code 1.
    """

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.do(options["verb"] or "list", options)
        except ValidationError as error:
            raise CommandError(self.describe_problems(error, options), returncode=2) from error
        except InUse as error:
            raise CommandError(one_line(error), returncode=1) from error
        except ValueError as error:
            raise CommandError(one_line(error), returncode=2) from error
        except IntegrityError as error:
            raise CommandError(CLASHES, returncode=2) from error
        except Error as error:
            raise unanswered(error) from error

    def do(self, verb: str, options: dict[str, Any]) -> None:
        """Execute a verb."""
        getattr(self, f"_{verb.replace('-', '_')}")(options)

    def describe_problems(self, error: ValidationError, options: dict[str, Any]) -> str:
        """The problems with a row's fields, as text."""
        return "; ".join(error.messages)


def as_json(facts: object) -> str:
    """Facts as JSON: instants in ISO 8601, text as it is. Raises: TypeError for a value that JSON cannot hold."""
    from django.core.serializers.json import DjangoJSONEncoder  # loads the serializers, which few commands need

    return dumps(facts, cls=DjangoJSONEncoder, ensure_ascii=False)


def unanswered(error: Error, before: str = "") -> CommandError:
    """The error to raise if the database does not answer, or lacks tables. `before`: the action that was not done."""
    otherwise = f"{str(error).strip()}\nTry again; `{PROGRAM} doctor` reports what is wrong with the database."
    return CommandError(f"{before}{database_errors.describe(error) or otherwise}", returncode=2)


@contextmanager
def patiently(ask_for_less: str) -> Iterator[None]:
    """Give up work that takes too long, such as a search without an index. Raises: ValueError, with advice how to ask
    for less.
    """
    try:
        with at_most(PATIENCE_SECONDS):
            yield
    except TookTooLong as error:
        raise ValueError(f"{error}; {ask_for_less}") from error


def ask(how: Callable[[str], str], question: str) -> str:
    """The answer of the user at the terminal; `how`: `input` or `getpass`. Raises: CommandError if the input ends
    (Ctrl-D), or is not text."""
    try:
        return how(question)
    except EOFError as error:
        raise CommandError("the input ended at a question: nothing more was done", returncode=2) from error
    except UnicodeDecodeError as error:
        raise CommandError("the answer is not text in UTF-8: nothing more was done", returncode=2) from error


def caller() -> str:
    """The user who gives a command, as far as this can be known."""
    return f"{os.environ.get('SUDO_USER') or os.environ.get('USER') or 'a user'} at the command line"


@contextmanager
def only_warnings() -> Iterator[None]:
    """Log warnings only, unless the environment has a LOG_LEVEL. Lines of *doing* are kept as rows."""
    logger = logging.getLogger()
    level = logger.level
    if not os.environ.get("LOG_LEVEL"):
        logger.setLevel(max(level, logging.WARNING))
    try:
        yield
    finally:
        logger.setLevel(level)
