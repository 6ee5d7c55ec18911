"""What the commands share: verbs, refusals with code 2, and the question at the terminal."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db.utils import OperationalError

from jobs.management import base
from jobs.management.base import VerbCommand


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


@pytest.mark.parametrize(("verb", "said"), [(None, "the list"), ("list", "the list"), ("set", "is set")])
def test_a_verb_names_a_method_and_none_is_the_list(verb, said, capsys):
    Command().handle(verb=verb)
    assert capsys.readouterr().out.strip() == said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("there is no such thing"), "there is no such thing"),
        (ValidationError(["too long", "too old"]), "too long; too old"),
        (OperationalError("connection refused\n"), "connection refused\nIs the database running"),
    ],
)
def test_what_a_verb_refuses_ends_it_with_code_2(error, said):
    refused = refusal(error)
    assert str(refused).startswith(said)
    assert refused.returncode == 2


def test_a_refusal_keeps_the_code_that_its_verb_gave_it():
    command = Command()
    command.raised = CommandError("not now", returncode=1)
    with pytest.raises(CommandError, match="not now") as caught:
        command.handle(verb="set")
    assert caught.value.returncode == 1


def test_without_the_database_it_says_what_was_not_done():
    assert str(base.unanswered(OperationalError("gone\n"), "nothing was swept: ")).startswith(
        "nothing was swept: gone\n"
    )


class TestTheQuestion:
    @pytest.fixture
    def terminal(self, monkeypatch) -> pytest.MonkeyPatch:
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        return monkeypatch

    @pytest.mark.parametrize(("answer", "yes"), [("y", True), (" YES ", True), ("", False), ("n", False)])
    def test_only_a_yes_is_one(self, terminal, answer, yes):
        terminal.setattr("builtins.input", lambda prompt: answer)
        assert Command().is_confirmed("Remove it?") is yes

    @pytest.mark.parametrize("ended", [EOFError, KeyboardInterrupt])
    def test_whoever_leaves_has_not_said_yes(self, terminal, ended):
        def leave(prompt: str) -> str:
            raise ended

        terminal.setattr("builtins.input", leave)
        assert Command().is_confirmed("Remove it?") is False

    def test_where_nobody_is_there_it_says_what_to_add(self, monkeypatch):
        monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
        with pytest.raises(CommandError, match=r"Remove it\? Nobody is there to ask: add --yes$") as caught:
            Command().is_confirmed("Remove it?")
        assert caught.value.returncode == 2
