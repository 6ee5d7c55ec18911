"""Runs `manage.py backlog` in the test's own process."""

import io

import pytest
from django.core.management import CommandError, call_command


def run(*arguments: object) -> str:
    """What it writes."""
    out = io.StringIO()
    call_command("backlog", *map(str, arguments), stdout=out, stderr=io.StringIO())
    return out.getvalue()


def refused(*arguments: object, code: int = 2) -> str:
    """What it says to arguments that it refuses, with exit code `code`."""
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    assert caught.value.returncode == code, caught.value
    return str(caught.value)
