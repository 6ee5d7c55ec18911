"""Commands in messages can be typed, and heal what they are said to heal."""

import ast
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.core.management import call_command, get_commands, load_command_class
from django.core.management.base import CommandError

from jobs import conf
from jobs.backlog import hold
from jobs.clock import database_clock
from jobs.management.commands.worker import _rules
from jobs.models import BacklogRecord, Breaker, PausedQueue
from jobs.states import Status
from operations.backlog.attention import findings
from operations.backlog.summary import summary
from sources.models import Assignment, Repository
from sources.planning import AVAILABILITY, BACKUPS
from tests.factories import make_record, make_worker
from tests.operations.conditions.examining import OK, finding, serve
from tests.product import modules
from tests.sources.factories import make_assignment, make_policy

TYPED = re.compile(r"`<PROGRAM> ([^`]*)`")
FILLED_IN = {"ID": "7", "DAYS": "7", "N": "2", "POINT": "20261121T065755Z", "FOLDER": "/srv/restored", "FILE": "f.yaml",
             "STATUS": "failing", "GROUP": "0123456789ab", "{}": "sources",
             "PLACE": "/srv/backups", "LOCATION": "/srv/backups"}  # fmt: skip
NOT_DJANGOS = ("recover",)


def texts_of(tree: ast.AST) -> Iterator[str]:
    """The f-strings of a module, as they are put together: what is filled in is 7, but for the program's own name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = []
            for part in node.values:
                if isinstance(part, ast.Constant):
                    parts.append(str(part.value))
                elif isinstance(part, ast.FormattedValue):
                    parts.append("<PROGRAM>" if ast.unparse(part.value).endswith("PROGRAM") else "7")
            yield "".join(parts)


def commands_in_messages() -> list[tuple[str, str]]:
    """(module, what is typed behind the program) of all that any message of the product names."""
    found = set()
    for path, tree in modules("PROGRAM"):
        for text in texts_of(tree):
            found |= {(path, typed) for typed in TYPED.findall(text)}
    return sorted(found)


def parsed(typed: str) -> dict[str, object]:
    typed = " ".join(FILLED_IN.get(word, word) for word in shlex.split(typed.partition(" <")[0]))
    name, *arguments = shlex.split(typed)
    name = name.replace("-", "_")
    parser: ArgumentParser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
    return vars(parser.parse_args(arguments)) | {"command": name}


def test_each_command_that_a_message_names_can_be_typed() -> None:
    found = [each for each in commands_in_messages() if each[1].split()[0] not in NOT_DJANGOS]
    assert len(found) > 60
    wrong = []
    for module, typed in found:
        if re.match(r"[A-Z7]|\S+ 7 ", typed):  # which command, or which of its verbs, is filled in
            continue
        try:
            parsed(typed)
        except SystemExit:  # of --help
            continue
        except (CommandError, KeyError, ValueError) as error:
            if not re.search(" is missing$|these are missing", str(error)):  # a command is named, and not what to type
                wrong.append(f"{module}: `{typed}`: {error}")
    assert not wrong, "\n".join(wrong)


def cures(do: str) -> list[str]:
    return re.findall(rf"`{re.escape(conf.PROGRAM)} ([^`]*)`", do)


LOOKS = ("backlog errors", "backlog show", "backlog list", "status", "doctor")


def follow(do: str) -> None:
    """Type the first of the commands that does more than to look, as a user who agrees to its question."""
    typed = next(each for each in cures(do) if not each.startswith(LOOKS))
    options = parsed(typed)
    if options["command"] == "worker":
        chosen = options["queues"]
        serve(**{rule.name: rule.concurrency for rule in _rules(str(chosen or ""), None)})
        return
    name, *arguments = shlex.split(typed)
    call_command(name, *arguments, *(["--yes"] if options.get("yes") is False else []))


def a_queue_that_feeds_another() -> None:
    make_record(queue=AVAILABILITY)
    serve(default=4)


def no_worker() -> None:
    make_record(queue=AVAILABILITY)
    make_record(queue="callbacks")


def a_queue_that_is_fed_and_empty() -> None:
    make_record(queue=AVAILABILITY)
    serve(availability=200, arrivals=200)


def a_pause() -> None:
    PausedQueue.objects.create(name="default", reason="moving")


def a_hold() -> None:
    hold(reason="moving", by="me")


def a_strange_kind() -> None:
    make_record(kind="strange")


def a_strange_queue() -> None:
    serve(default=4)
    make_record(queue="elsewhere")


def a_dead_letter() -> None:
    make_record(Status.FAILED)


def an_open_breaker() -> None:
    now = database_clock()
    Breaker.objects.create(key="k:1", title="nas", failures=3, opened_at=now, probe_at=now)


def no_periodic_tasks() -> None:
    pass


def a_backup_that_looked_wrong() -> None:
    row = make_assignment(held_back_since=database_clock(), held_back_why="half is gone")
    type(row.source).objects.filter(pk=row.source_id).update(name="SOURCE")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (a_queue_that_feeds_another, "unserved_queues"),
        (no_worker, "unserved_queues"),
        (a_queue_that_is_fed_and_empty, "unserved_queues"),
        (no_worker, "workers"),
        (a_pause, "paused_queues"),
        (a_hold, "on_hold"),
        (a_strange_kind, "unknown_kinds"),
        (a_strange_queue, "unserved_queues"),
        (a_dead_letter, "dead_letters"),
        (an_open_breaker, "open_breakers"),
        (no_periodic_tasks, "periodic_tasks"),
        (a_backup_that_looked_wrong, "held_back"),
    ],
)
def test_a_cure_heals_what_it_is_printed_for(make: Callable[[], None], name: str) -> None:
    make()
    found = finding(name)
    assert found.severity is not OK
    follow(found.do)
    assert finding(name).severity is OK, f"after {found.do}"


@pytest.mark.django_db
def test_what_the_cure_of_a_dead_worker_starts_is_served_to_the_end() -> None:
    """A worker that only asks sources hands them on into a queue that no worker serves."""
    record = make_record(queue=AVAILABILITY)
    make_worker(queues={"default": 4}, heartbeat_at=database_clock())
    need, *_ = [each for each in findings(summary(database_clock())) if each.kind == "unserved_queues"]
    follow(need.remedy)
    BacklogRecord.objects.filter(pk=record.pk).update(queue=BACKUPS)
    assert [each for each in findings(summary(database_clock())) if each.kind == "unserved_queues"] == []


@pytest.mark.django_db
def test_a_repository_that_is_away_is_there_once_its_new_place_is_named(tmp_path: Path, orders_run_here: None) -> None:
    row = Repository.objects.create(
        name="NAME", location=str(tmp_path / "old"), away_since=database_clock(), away_why="it is not mounted"
    )
    make_assignment(make_policy(repository=row))
    typed = next(each for each in cures(finding("places").do) if each.startswith("repositories"))
    call_command(*shlex.split(typed.replace("PLACE", str(tmp_path / "new"))))
    assert finding("places").severity is OK
    assert Assignment.objects.get().policy.repository.location == str(tmp_path / "new")
