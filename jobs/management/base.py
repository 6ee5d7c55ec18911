"""What the commands share: verbs that are methods, refusals without a traceback, and a question at the terminal."""

import sys
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db.utils import Error
from rich.console import RenderableType

from jobs.backlog.rendering import text_of


class TerminalCommand(BaseCommand):
    """A command that a person at a terminal uses: it may ask, and draws tables as wide as that is."""

    def print_out(self, renderable: RenderableType) -> None:
        self.stdout.write(text_of(renderable, terminal=self.stdout.isatty()))

    def is_confirmed(self, question: str, otherwise: str = "add --yes") -> bool:
        """Ask the person at the terminal. Raises: CommandError, with what to do `otherwise`, when nobody is there."""
        if not sys.stdin.isatty():
            raise CommandError(f"{question} Nobody is there to ask: {otherwise}", returncode=2)
        try:
            return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
        except (EOFError, KeyboardInterrupt):
            self.stdout.write("")
            return False


class VerbCommand(TerminalCommand):
    """A command whose argument `verb` names a method: `set` is `_set(options)`, and no verb is `_list(options)`.

    A ValueError and a ValidationError of a method are what the person got wrong: it ends with code 2.
    """

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['verb'] or 'list'}")(options)
        except ValidationError as error:
            raise CommandError(self.told_problems(error, options), returncode=2) from error
        except ValueError as error:
            raise CommandError(f"{error}", returncode=2) from error
        except Error as error:
            raise unanswered(error) from error

    def told_problems(self, error: ValidationError, options: dict[str, Any]) -> str:
        """What is wrong with the fields of a row."""
        return "; ".join(error.messages)


def unanswered(error: Error, before: str = "") -> CommandError:
    """What to raise when the database does not answer, or lacks what is asked of it. `before`: what was not done."""
    return CommandError(
        f"{before}{str(error).strip()}\nIs the database running, and were its migrations applied (manage.py migrate)?",
        returncode=2,
    )
