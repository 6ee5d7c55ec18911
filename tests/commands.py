"""Management commands in the test's own process."""

import io
import logging
import threading
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command


class Heard(logging.Handler):
    """The lines of the log below a warning that this thread writes while a command runs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < logging.WARNING and record.thread == threading.get_ident():
            self.lines.append(record.getMessage())

    def __enter__(self) -> "Heard":
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *raised: object) -> None:
        logging.getLogger().removeHandler(self)


def command(name: str, *, with_errors: bool = False) -> tuple[Callable[..., str], Callable[..., str]]:
    """A pair of functions: the output of the command, such as `status` or `sources pause`, for arguments; and its
    refusal, with exit code `code` or any. What a command did is its answer, and no line of the log beside it."""
    noun, *verb = name.split()

    def run(*arguments: object) -> str:
        out = io.StringIO()
        with Heard() as heard:
            call_command(noun, *verb, *map(str, arguments), stdout=out, stderr=out if with_errors else io.StringIO())
        assert heard.lines == [], "printed among the answer"
        return out.getvalue()

    def refused(*arguments: object, code: int | None = 2) -> str:
        with pytest.raises(CommandError) as caught:
            run(*arguments)
        assert caught.value.returncode == (code or caught.value.returncode), caught.value
        return str(caught.value)

    return run, refused
