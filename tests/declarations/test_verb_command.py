"""Shared behaviour of the commands: verbs, refusals with code 2, and the question at the terminal."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import connection
from django.db.utils import Error, IntegrityError, InterfaceError, OperationalError, ProgrammingError

from declarations.surfaces.commands import base
from declarations.surfaces.commands.base import VerbCommand
from jobs import database_errors


class Command(VerbCommand):
    raised: Exception | None = None

    def _list(self, options: dict[str, Any]) -> None:
        self.stdout.write("the list")

    def _set(self, options: dict[str, Any]) -> None:
        if self.raised:
            raise self.raised
        self.stdout.write("is set")


def refusal(error: Exception) -> CommandError:
    command = Command()
    command.raised = error
    with pytest.raises(CommandError) as caught:
        command.handle(verb="set")
    assert caught.value.__cause__ is error
    return caught.value


def test_a_verb_names_a_method_and_none_is_the_list(capsys):
    for verb, message in ((None, "the list"), ("list", "the list"), ("set", "is set")):
        Command().handle(verb=verb)
        assert capsys.readouterr().out.strip() == message


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("there is no such thing"), "there is no such thing"),
        (ValidationError(["too long", "too old"]), "too long; too old"),
        (OperationalError("too many meanwhile\n"), "too many meanwhile\nTry again; `manage.py doctor`"),
        (IntegrityError("violates foreign key constraint"), base.CLASHES),
    ],
)
def test_what_a_verb_refuses_ends_it_with_code_2(error, message):
    refused = refusal(error)
    assert str(refused).startswith(message)
    assert refused.returncode == 2


def caused(error: Error, cause: Exception) -> Error:
    error.__cause__ = cause
    return error


AWAY = "the database 'shop' at db:5432 does not answer: refused\nCheck the setting DATABASES, and that the server runs."


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (caused(OperationalError("refused\nmore"), psycopg.OperationalError("refused")), AWAY),
        (caused(OperationalError("refused"), psycopg.errors.AdminShutdown("refused")), AWAY),
        (caused(InterfaceError("refused"), psycopg.InterfaceError("refused")), AWAY),
        (caused(ProgrammingError("no relation x\nLINE 1"), psycopg.errors.UndefinedTable()),
         "the database is not migrated (no relation x). Run `manage.py migrate` first."),
        (OperationalError("another was faster"), ""),
        (caused(OperationalError("too late"), psycopg.errors.QueryCanceled()), ""),
        (caused(ProgrammingError("syntax"), psycopg.errors.SyntaxError()), ""),
    ],
)  # fmt: skip
def test_a_database_that_is_away_is_named_with_what_to_do_and_one_that_answered_is_not_away(
    error, message, monkeypatch
):
    shop = {"NAME": "shop", "HOST": "db", "PORT": "", "PASSWORD": "hunter2"}
    monkeypatch.setattr(database_errors, "settings", SimpleNamespace(DATABASES={"default": shop}))
    assert database_errors.describe(error) == message
    assert str(base.unanswered(error, "nothing was swept: ")).startswith(f"nothing was swept: {message or error}")


def test_what_takes_too_long_says_how_to_ask_for_less(db, monkeypatch):
    monkeypatch.setattr(base, "PATIENCE_SECONDS", 0.01)
    with (
        pytest.raises(ValueError, match=r"that took more than 0\.01 s; ask for less"),
        base.patiently("ask for less"),
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT pg_sleep(60)")


def test_only_a_yes_is_one_and_a_person_who_leaves_has_not_agreed(monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, yes in (("y", True), (" YES ", True), ("", False), ("n", False)):
        monkeypatch.setattr("builtins.input", lambda prompt, answer=answer: answer)
        assert Command().is_confirmed("Remove it?") is yes
    for ended in (EOFError, KeyboardInterrupt):
        monkeypatch.setattr("builtins.input", Mock(side_effect=ended))
        assert Command().is_confirmed("Remove it?") is False


def test_without_a_terminal_it_says_what_to_add(monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(CommandError, match=r"Remove it\? There is no terminal to ask at: add --yes$") as caught:
        Command().is_confirmed("Remove it?")
    assert caught.value.returncode == 2
