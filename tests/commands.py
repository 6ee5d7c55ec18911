"""Management commands in the test's own process."""

import io
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command


def command(name: str, *, with_errors: bool = False) -> tuple[Callable[..., str], Callable[..., str]]:
    """A pair of functions: the output of the command, such as `status` or `sources pause`, for arguments; and its
    refusal, with exit code `code` or any."""
    noun, *verb = name.split()

    def run(*arguments: object) -> str:
        out = io.StringIO()
        call_command(noun, *verb, *map(str, arguments), stdout=out, stderr=out if with_errors else io.StringIO())
        return out.getvalue()

    def refused(*arguments: object, code: int | None = 2) -> str:
        with pytest.raises(CommandError) as caught:
            run(*arguments)
        assert caught.value.returncode == (code or caught.value.returncode), caught.value
        return str(caught.value)

    return run, refused
