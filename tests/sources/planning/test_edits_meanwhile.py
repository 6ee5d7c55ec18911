"""An edit of a policy holds for all that has not begun to copy, at whatever step it comes."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.db import transaction
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from jobs import claiming, settling
from jobs.models import BacklogRecord, Breaker
from jobs.outcomes import ClaimedRecord, Failed, Handoff, Held, Outcome, Postponed, Released, Unavailable
from jobs.priorities import usual
from jobs.states import Status, WaitingFor
from sources import planning
from sources.models import Repository
from sources.planning import AVAILABILITY, BACKUPS
from tests.factories import make_throttle, make_worker
from tests.sources.factories import (
    backed_up,
    claim,
    handed_on,
    make_assignment,
    make_policy,
    record_of,
    settle,
    unfinished,
)
from tests.sources.planning.planned import DAY, HOUR, MINUTE, NIGHTS, NINE, edited, tick

pytestmark = pytest.mark.django_db

LATER = NINE + 2 * HOUR
"""When all that an outcome made wait is over, but closed windows."""

EDITS: dict[str, Callable[[], dict[str, Any]]] = {
    "throttle": lambda: {"throttle": make_throttle(10)},
    "priority": lambda: {"priority": 9},
    "yearly": lambda: {"cron": "0 9 1 1 *"},
    "weekly": lambda: {"cron": "0 9 * * 1"},
    "zone": lambda: {"zone": "Pacific/Auckland"},
    "window": lambda: {"window": NIGHTS},
    "ten at first": lambda: {"seeding_limit": 10},
    "what fits": lambda: {"only_if_it_fits": True, "window": [{"start": "08:00", "end": "23:00"}]},
    "repository": lambda: {"repository": Repository.objects.create(name="other", location="/srv/other")},
    "disabled": lambda: {"enabled": False},
}
OUTCOMES: dict[str, Outcome] = {
    "answers": Handoff(BACKUPS),
    "silent": Unavailable("silent", 900),
    "lost": Unavailable("lost", 900, first_in_line=True),
    "woken": Unavailable("woken", 120, woken=True),
    "failed": Failed("failed"),
    "put off": Postponed(NINE + 20 * MINUTE, WaitingFor.RECHECK, "busy"),
    "snoozed": Postponed(NINE + HOUR, WaitingFor.SNOOZE, "its user wants no backup"),
    "released": Released("the worker was stopped"),
}
STEPS = ("before it is emitted", "emitted", "asked", "answered", "looked at again")


def of(*names: str) -> dict[str, Any]:
    """The fields of these edits."""
    return {field: value for name in names for field, value in EDITS[name]().items()}


def ask(now: datetime) -> list[ClaimedRecord]:
    return claiming.claim(AVAILABILITY, worker_id=make_worker().pk, limit=10, now=now)


def what_is_to_be_copied(step: str, names: list[str], outcomes: list[str]) -> list[tuple[Any, ...]]:
    """The backlog when all that is wanted was asked, if the edit came at this step."""
    policy = make_policy()
    assignments = [make_assignment(policy), *(backed_up(policy, NINE - days * DAY) for days in (1, 2))]
    number = {planning.subject_of(each.pk): index for index, each in enumerate(assignments)}

    def edited_at(this: str) -> None:
        if this == step:
            edited(policy, **of(*names))

    edited_at("before it is emitted")
    planning.emit_due(NINE)
    edited_at("emitted")
    tick(NINE)
    asked = ask(NINE)
    edited_at("asked")
    settling.settle([(record, OUTCOMES[outcomes[number[record.subject]]]) for record in asked], now=NINE + MINUTE)
    edited_at("answered")
    tick(NINE + MINUTE)
    edited_at("looked at again")
    for now in (NINE + 2 * MINUTE, LATER, LATER + MINUTE):
        for _ in range(2):
            tick(now)
            settling.settle([(record, Handoff(BACKUPS)) for record in ask(now)], now=now)
    tick(LATER + 2 * MINUTE)
    rows = BacklogRecord.objects.unfinished().filter(origin=policy.schedule)
    # what was asked before the edit closed its window remembers that until it answers
    return sorted(
        (number[row.subject], row.queue, row.status, row.waiting_for, row.closes_at, row.lane != 0,
         usual(row.priority), row.due_day,
         row.run_after if row.status == Status.WAITING else (row.rank_day, row.failures))
        for row in rows
    )  # fmt: skip


@pytest.mark.slow
@settings(max_examples=12, phases=[Phase.explicit, Phase.generate])  # an example takes a second: shrinking, minutes
@given(
    step=st.sampled_from(STEPS[1:]),
    names=st.lists(st.sampled_from(sorted(EDITS)), min_size=1, max_size=3, unique=True),
    outcomes=st.lists(st.sampled_from(sorted(OUTCOMES)), min_size=3, max_size=3),
)
def test_an_edit_at_any_step_is_as_one_before_it_began(step: str, names: list[str], outcomes: list[str]) -> None:
    found = []
    for at in (STEPS[0], step):
        with transaction.atomic():
            found.append(what_is_to_be_copied(at, names, outcomes))
            transaction.set_rollback(True)
    before, meanwhile = found
    assert meanwhile == before


def test_a_throttle_and_a_priority_that_are_set_while_sources_are_asked_hold_for_them() -> None:
    policy = make_policy()
    for _ in range(5):
        make_assignment(policy)
    planning.emit_due(NINE)
    asked = ask(NINE)
    edited(policy, priority=9, throttle=make_throttle(1))
    settling.settle([(record, Handoff(BACKUPS)) for record in asked], now=NINE)
    tick(NINE + MINUTE)
    settling.settle([(record, Handoff(BACKUPS)) for record in ask(NINE + MINUTE)], now=NINE + MINUTE)
    worker = make_worker().pk
    [copied] = claiming.claim(BACKUPS, worker_id=worker, limit=5, now=NINE + MINUTE)
    assert copied.priority == 9


def test_what_is_not_due_any_more_when_its_source_answers_is_not_copied() -> None:
    policy = make_policy()
    backed_up(policy, NINE - DAY)
    planning.emit_due(NINE)
    [asked] = ask(NINE)
    edited(policy, **of("yearly"))
    settle(asked, Handoff(BACKUPS), NINE)
    tick(NINE + MINUTE)
    assert unfinished() == 0
    assert BacklogRecord.objects.get().last_error == "not due any more: its policy was edited"


def test_what_the_breaker_of_the_earlier_repository_refused_is_asked_for_the_new_one() -> None:
    policy = make_policy()
    assignment = make_assignment(policy)
    planning.emit_due(NINE)
    breaker = Breaker.objects.create(key="repository:1", title="r", opened_at=NINE, probe_at=NINE + DAY, failures=3)
    [asked] = ask(NINE)
    edited(policy, **of("repository"))
    settle(asked, Held(breaker.pk, "its breaker is open"), NINE)
    tick(NINE + MINUTE)
    assert (record_of(assignment).status, record_of(assignment).breaker_id) == (Status.READY, None)


def test_a_copy_under_way_ends_by_the_old_rules_and_what_follows_goes_by_the_new() -> None:
    policy = make_policy()
    assignment = backed_up(policy, NINE - DAY)
    planning.emit_due(NINE)
    copied = handed_on(assignment, NINE)
    edited(policy, **of("throttle", "priority", "weekly"))
    row = record_of(assignment)
    assert (row.status, row.lane, row.priority) == (Status.RUNNING, 0, 0)
    settle(copied, Failed("failed"), NINE + MINUTE)
    tick(LATER)
    following = claim(AVAILABILITY, LATER)
    assert (following.lane != 0, following.priority) == (True, 9)
