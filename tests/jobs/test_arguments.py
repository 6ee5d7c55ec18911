"""Commands take what is typed for what it is, and for nothing that is only like it."""

from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import CommandError

from jobs.management.arguments import ExactParser
from tests.product import PACKAGES


def parsers_of(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    """It and those of its verbs."""
    yield parser
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for each in action.choices.values():
                yield from parsers_of(each)


def parser_of(name: str) -> ArgumentParser:
    return load_command_class(get_commands()[name], name).create_parser("manage.py", name)


def test_each_command_and_verb_reads_whole_names() -> None:
    ours = [name for name, app in get_commands().items() if app in PACKAGES]
    assert len(ours) > 15
    for name in ours:
        for each in parsers_of(parser_of(name)):
            assert isinstance(each, ExactParser), each.prog
            assert not each.allow_abbrev, each.prog


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("sources pause a --for 7d", "there is no option --for here; there are --json, --reason, --until"),
        ("backlog list --stat failed", "there is no option --stat; did you mean --status?"),
        ("backlog list --status done", "--status: 'done' is not a value that it takes; there are "),
        ("repositories lst", "VERB: 'lst' is not a value that it takes; did you mean list or set?"),
        ("worker --concurrency x", "--concurrency: 'x' is not a whole number"),
        ("worker --concurrency", "--concurrency needs a value after it"),
        ("repositories add", "these are missing: NAME, LOCATION"),
        ("restores run a --back --to /x", "--to and --back exclude each other: leave one out"),
        ("status --json=1", "--json takes no value"),
        ("status now", "'now' is one argument too many"),
        ("backlog list --limit x", "--limit: 'x' is not a number: from 1 to 10,000"),
    ],
)
def test_what_is_refused_says_what_to_type(typed: str, text: str) -> None:
    name, *arguments = typed.split()
    with pytest.raises(CommandError) as refused:
        parser_of(name).parse_args(arguments)
    assert text in str(refused.value)
