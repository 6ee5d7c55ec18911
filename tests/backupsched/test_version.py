"""`--version` is that of this program."""

import sys
from contextlib import suppress

import django
import pytest

from audit import actors
from backupsched.command_line import main
from backupsched.version import own_version


@pytest.mark.parametrize(
    "typed", ["--version", "version", "worker --version", "migrate --version", "sources --version"]
)
def test_every_command_reports_the_version_of_this_program_and_not_that_of_django(typed, monkeypatch, capsys):
    # what a command sets for the rest of its process
    monkeypatch.setattr(actors, "_of_process", None)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    monkeypatch.setattr(sys, "argv", ["manage.py", *typed.split()])
    with suppress(SystemExit):
        main()
    assert capsys.readouterr().out == f"{own_version()}\n"
    assert own_version() != django.get_version()
