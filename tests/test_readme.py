"""Commands in the documents exist, and the policy in the README can be imported."""

import re
import shlex
import shutil
import subprocess
from argparse import ArgumentParser, _SubParsersAction
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from backupsched.overview import GROUPS, overview
from declarations.surfaces.commands.nouns import Verbs
from fleet.files import formats
from fleet.files.apply import apply_fleet
from jobs import conf
from sources.models import Assignment
from storage.recover import program as recovering
from tests.documents import DOCUMENTS, ROOT, Command, blocks, commands, table_rows
from tests.product import PACKAGES, paths

README = ROOT / "README.md"
MANAGE = [".venv/bin/python", "manage.py"]
RECOVER = ".venv/bin/backupsched recover"
COMMANDS = commands()


def of(program: str) -> list[Command]:
    return [command for command in COMMANDS if command.line.startswith(program)]


def test_the_readme_opens_with_one_sentence_and_the_two_commands() -> None:
    title, sentence, *_ = README.read_text(encoding="utf-8").split("\n\n")
    assert title.startswith("# ")
    assert sentence.count(". ") == 0
    assert blocks(README, "console")[0].split("\n")[:2] == ["make demo", "make test"]


def test_every_command_is_of_a_sort_that_is_checked_here() -> None:
    checked = [*of("make "), *of(" ".join(MANAGE)), *of("export "), *of(RECOVER), *of("psql "), *of("pg_restore ")]
    assert set(COMMANDS) == set(checked)


@pytest.mark.parametrize("command", of("make "), ids=str)
def test_every_make_target_exists(command: Command) -> None:
    make = shutil.which("make")
    assert make, "the tests need make"
    _, *arguments = shlex.split(command.line)
    asked = subprocess.run([make, "-n", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert asked.returncode == 0, asked.stderr


def test_every_management_command_takes_its_arguments() -> None:
    for command in of(" ".join(MANAGE)):
        name, *arguments = shlex.split(command.line)[len(MANAGE) :]
        if name == "recover":  # without Django
            recovering.parser().parse_args(arguments)
            continue
        assert name in get_commands(), f"there is no command {name}: {command}"
        app = get_commands()[name]
        loaded = load_command_class(app, name) if isinstance(app, str) else app
        # raises for an unknown option or a missing argument, and says which
        loaded.create_parser("manage.py", name).parse_args(arguments)


NAMED = re.compile(r"`(?:manage\.py |backupsched |\{(?:conf\.)?PROGRAM\} )([a-z][\w-]*)(?: ([a-z][\w-]*))?")
WITHOUT_PROGRAM = re.compile(r"`([a-z]+) ([a-z][\w-]*)")


def test_no_document_and_no_message_names_a_command_or_a_verb_that_is_not_there() -> None:
    """Commands in backticks, with the program or beginning with a noun of ours."""
    commands = get_commands()
    ours = {name for name, app in commands.items() if app in PACKAGES}
    verbs = {name: verbs_of(load_command_class(commands[name], name)) for name in sorted(ours)}
    texts = [*DOCUMENTS, *(ROOT / path for path in paths()), ROOT / "agent/backupsched-agent", ROOT / "Makefile"]
    wrong = []
    for path in texts:
        text = path.read_text(encoding="utf-8")
        named = [*NAMED.findall(text), *(pair for pair in WITHOUT_PROGRAM.findall(text) if verbs.get(pair[0]))]
        for name, verb in named:
            is_there = name in commands or name == "recover"
            if not is_there or (verb and verbs.get(name) and verb not in verbs[name]):
                wrong.append(f"{path.relative_to(ROOT)}: `{name} {verb}`")
    assert not wrong, "\n".join(wrong)


def test_each_example_in_the_help_is_taken_as_it_is_written() -> None:
    tried = 0
    for name in sorted(name for name, app in get_commands().items() if app in PACKAGES):
        command = load_command_class(get_commands()[name], name)
        for verb, example in getattr(command, "examples", {}).items():
            for line in f"{conf.PROGRAM} {name} {verb} {example}".splitlines():
                _, *arguments = shlex.split(line.partition(" < ")[0])
                assert arguments[0] == name, line
                command.create_parser("manage.py", name).parse_args(arguments[1:])  # raises for what it does not take
                tried += 1
    assert tried > 25


OPTIONS = re.compile(r"`(?:manage\.py |backupsched |\{(?:conf\.)?PROGRAM\} )?([a-z]+)((?: [^`\n]*)? --[a-z][^`\n]*)`")


def test_no_document_and_no_message_names_an_option_that_is_not_there() -> None:
    """Options in backticks behind a command of ours, and its verb if it has any."""
    ours = {name: load_command_class(app, name) for name, app in get_commands().items() if app in PACKAGES}
    parsers = {name: command.create_parser("manage.py", name) for name, command in ours.items()}
    wrong, seen = [], 0
    of_today = [path for path in DOCUMENTS if path.parent.name != "decisions"]
    for path in [*of_today, *(ROOT / path for path in paths())]:
        for name, rest in OPTIONS.findall(path.read_text(encoding="utf-8")):
            if name in parsers:
                seen += 1
                there = options_of(parsers[name], rest.split())
                wrong += [
                    f"{path.relative_to(ROOT)}: `{name}{rest}`: {option}"
                    for option in re.findall(r"(?<= )--[a-z][a-z-]*", rest)
                    if option not in there
                ]
    assert not wrong, "\n".join(wrong)
    assert seen > 30


def options_of(parser: ArgumentParser, words: list[str]) -> set[str]:
    """The options that a command takes behind these words, of which the first may be a verb."""
    for action in parser._actions:
        if isinstance(action, Verbs) and words:
            verb = words[0] if words[0] in action.choices else "list"
            if fill := action.later.pop(verb, None):
                fill(action.choices[verb])
            return {*parser._option_string_actions, *action.choices[verb]._option_string_actions}
    return set(parser._option_string_actions)


def test_help_has_each_command_once_and_at_most_20_of_ours() -> None:
    named = [name for group in GROUPS.values() for name in group]
    there = {name for name, app in get_commands().items() if app in PACKAGES}
    assert sorted(named) == sorted(there - {"demo", "migrate"})  # these are in sentences, as `recover`
    assert len(set(named) - {"qcluster"}) <= 20, "qcluster is django-q2's"
    assert all(f"  {name} " in overview("manage.py") for name in named)


def verbs_of(command: BaseCommand) -> set[str]:
    """The verbs that a command takes; empty if it takes none."""
    actions = command.create_parser("manage.py", "it")._actions
    return {verb for each in actions if isinstance(each, _SubParsersAction) for verb in each.choices}


def test_recover_takes_its_arguments() -> None:
    for command in of(RECOVER):
        recovering.parser().parse_args(shlex.split(command.line.removeprefix(RECOVER)))


def test_every_exported_variable_is_a_setting() -> None:
    settings = {cells[0].strip("`") for cells in table_rows(ROOT / "docs/settings.md")}
    assert {command.line.removeprefix("export ").partition("=")[0] for command in of("export ")} <= settings


@pytest.mark.django_db
def test_the_policy_in_the_readme_can_be_imported(tmp_path: Path) -> None:
    (fleet,) = blocks(README, "yaml")
    file = tmp_path / "fleet.yaml"
    file.write_text(fleet)
    report = apply_fleet(formats.read(str(file)), "README.md", folder=tmp_path)

    assignment = Assignment.objects.select_related("source", "policy__schedule__retry_policy").get()
    assert str(assignment) == "laptop-anna under laptops"
    assert assignment.policy.schedule.retry_policy is not None
    assert report.emitted == 1
    again = apply_fleet(formats.read(str(file)), "README.md", folder=tmp_path)
    assert again.changes == []
