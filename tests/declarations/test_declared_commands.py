"""The same for all commands of what is declared: each lists, shows, renames and removes. That they add, set and remove
as each other surface does: `surfaces/test_surfaces.py`."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from schedules.models import Schedule
from sources.models import Repository
from tests.alerting.making import make_route
from tests.commands import command
from tests.delivery.endpoint_rows import make_endpoint
from tests.factories import make_throttle
from tests.schedules.event_records import make_event_schedule
from tests.sources.factories import make_assignment, make_policy, make_source

pytestmark = pytest.mark.django_db
_numbers = count(1)


def another_endpoint() -> Any:
    return make_endpoint(name=f"hooks {next(_numbers)}")


MAKERS: dict[str, Callable[[], Any]] = {
    "alerts": make_route,
    "endpoints": another_endpoint,
    "policies": make_policy,
    "repositories": lambda: Repository.objects.create(name=f"r{Repository.objects.count()}", location="/srv/none"),
    "schedules": lambda: make_event_schedule(name=f"s {next(_numbers)}", endpoint=another_endpoint()),
    "sources": make_source,
    "throttles": lambda: make_throttle(3),
}
of_each = pytest.mark.parametrize("noun", list(MAKERS))


def made(noun: str) -> str:
    """The name of a new row."""
    row = MAKERS[noun]()
    return str(getattr(row, "name", row))


def listed(noun: str) -> set[str]:
    """The names that it lists."""
    verb = "routes" if noun == "alerts" else "list"
    facts = json.loads(command(f"{noun} {verb}")[0]("--json"))
    return {each.get("name") for each in facts}


@of_each
def test_it_is_listed_shown_and_renamed(noun: str) -> None:
    first, second = (made(noun) for _ in range(2))
    run, refused = command(noun)
    assert listed(noun) >= {first, second}
    assert first in run("show", first)
    run("rename", first, "another name")
    assert {"another name", second} <= listed(noun)
    assert first not in listed(noun)
    assert "NEW: there is" in refused("rename", "another name", second)
    assert f"did you mean '{second}'" in refused("show", f"{second}x").replace('"', "'")
    assert "name a field to change" in refused("set", second)


@pytest.mark.parametrize("noun", ["policies", "schedules"])  # shown as usual, and in its own way
def test_several_are_shown_and_several_changed_or_none(noun: str) -> None:
    names = [made(noun) for _ in range(2)]
    run, refused = command(noun)
    shown = run("show", *names, "--json").splitlines()
    assert [json.loads(line)["name"] for line in shown] == names
    assert refused("show", names[0], "no such name") == refused("show", "no such name")
    assert f"{names[1]}: nothing was saved" in refused("set", *names, "--name", "of two")
    assert listed(noun) >= {*names}


def test_a_change_of_several_is_made_to_each() -> None:
    names = [made("throttles") for _ in range(2)]
    found = command("throttles set")[0](*names, "--max-in-flight", "9", "--json")
    assert [json.loads(line)[0]["max_in_flight"] for line in found.splitlines()] == [9, 9]


def test_what_is_done_to_one_after_the_other_goes_on_behind_one_that_was_refused() -> None:
    own, policy = made("schedules"), str(make_policy())
    run, refused = command("schedules")
    assert "1 of 2 failed" in refused("pause", policy, own, code=1)
    assert Schedule.objects.filter(enabled=False).count() == 1
    assert run("cancel", own, own, "--yes").count("none of its batches is under way") == 1


@pytest.mark.parametrize("noun", ["throttles", "repositories", "sources"])  # removed as usual, and in their own ways
def test_several_are_removed_at_once_or_none(noun: str) -> None:
    names = [made(noun) for _ in range(2)]
    stays = made(noun)
    run, refused = command(noun)
    refused("remove", *names, "no such name", "--yes")
    assert "no terminal" in refused("remove", *names)
    assert listed(noun) >= set(names)
    assert json.loads(run("remove", *names, "--yes", "--json"))["removed"] == names
    assert stays in listed(noun)
    assert listed(noun).isdisjoint(names)


def test_a_policy_that_sources_are_under_is_not_removed() -> None:
    policy, (_, refused) = make_policy(), command("policies remove")
    for under in ("1 source is under it", "2 sources are under it"):
        make_assignment(policy)
        assert under in refused(policy, "--yes", code=1)
    assert str(policy) in listed("policies")
