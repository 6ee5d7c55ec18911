"""First backups may take only so many execution units, so that onboarding a hundred laptops does not stop the fleet."""

import pytest

from jobs import claiming, settling
from jobs.models import Lane, Throttle
from jobs.outcomes import Handoff
from sources import planning
from sources.models import Assignment, Policy
from tests.factories import claim_ready, make_throttle, make_worker
from tests.sources.factories import MONDAY, backed_up, make_assignment, make_policy, record_of
from tests.sources.planning.planned import DAY, NINE

pytestmark = pytest.mark.django_db


def seeding(limit: int | None, **fields: object) -> Policy:
    policy = make_policy(seeding_limit=limit, **fields)
    planning.limit_seeding(policy)
    return policy


def throttles_of(assignment: Assignment) -> set[int]:
    lane = record_of(assignment).lane
    return set(Lane.objects.get(pk=lane).throttle_ids) if lane else set()


def test_first_backups_take_no_more_units_than_that_and_the_others_run_on() -> None:
    policy = seeding(2)
    new = [make_assignment(policy) for _ in range(6)]
    known = [backed_up(policy, MONDAY - DAY) for _ in range(3)]
    planning.emit_due(NINE)
    worker = make_worker()
    while asked := claiming.claim("availability", worker_id=worker.pk, limit=1, now=NINE):
        [record] = asked
        settling.settle([(record, Handoff("backups"))], now=NINE)
    running = {record.subject for record in claiming.claim("backups", worker_id=worker.pk, limit=16, now=NINE)}
    assert len(running & {planning.subject_of(assignment.pk) for assignment in new}) == 2
    assert running >= {planning.subject_of(assignment.pk) for assignment in known}


def test_a_first_backup_is_held_by_both_and_a_later_one_by_the_policys_own() -> None:
    own = make_throttle(5)
    policy = seeding(2, throttle=own)
    new, known = make_assignment(policy), backed_up(policy, MONDAY - DAY)
    planning.emit_due(NINE)
    assert throttles_of(new) == {own.pk, policy.seeding_throttle_id}
    assert throttles_of(known) == {own.pk}


def test_back_up_now_of_what_was_never_backed_up_is_held_too() -> None:
    policy = seeding(2)
    assignment = make_assignment(policy)
    planning.back_up_now([assignment], NINE)
    assert throttles_of(assignment) == {policy.seeding_throttle_id}


def test_a_changed_limit_holds_what_is_on_the_backlog_already() -> None:
    policy = seeding(None)
    new, known = make_assignment(policy), backed_up(policy, MONDAY - DAY)
    planning.emit_due(NINE)
    policy.seeding_limit = 3
    policy.save()
    planning.replan(policy, NINE)
    assert throttles_of(new) == {policy.seeding_throttle_id}
    assert throttles_of(known) == set()
    policy.seeding_limit = 1
    policy.save()
    planning.replan(policy, NINE)
    assert Throttle.objects.get(pk=policy.seeding_throttle_id).max_in_flight == 1
    policy.seeding_limit = None
    policy.save()
    planning.replan(policy, NINE)
    assert throttles_of(new) == set()


def test_no_more_first_backups_are_asked_at_once_than_that_and_half_as_many_again() -> None:
    policy = seeding(2)
    for _ in range(30):
        make_assignment(policy)
    known = [backed_up(make_policy(), MONDAY - DAY) for _ in range(5)]
    planning.emit_due(NINE)
    asked = claim_ready(48, "availability", NINE)
    first = [record for record in asked if record.lane]
    assert (len(first), len(asked) - len(first)) == (3, len(known))


def test_another_policy_may_take_the_name_of_a_renamed_one() -> None:
    first = seeding(2)
    name = first.schedule.name
    first.schedule.name = "renamed"
    first.schedule.save()
    second = make_policy(seeding_limit=3)
    second.schedule.name = name
    second.schedule.save()
    planning.limit_seeding(second)
    assert first.seeding_throttle_id != second.seeding_throttle_id
