"""Sizes of first backups, the hours in which a source was ever there, and how many first backups may run: parts of the
order."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.base import EngineResult, Verdict
from jobs import claiming, settling
from jobs.models import Lane, Throttle
from jobs.outcomes import Handoff, Succeeded, Unavailable
from sources import planning
from sources.availability import wake
from sources.domain import wake_hours
from sources.models import Assignment, Policy, Source
from sources.models.source import FIRST_BYTES_PER_SECOND
from tests.factories import claim_ready, make_claimed, make_throttle, make_worker
from tests.sources.factories import (
    MONDAY,
    backed_up,
    claim,
    make_assignment,
    make_policy,
    make_source,
    record_of,
    settle,
)
from tests.sources.planning.planned import DAY, HOUR, MINUTE, NINE, edited

AT_NINE = 1 << 9


def holding(policy: Policy, seconds: int | None, **fields: Any) -> Assignment:
    """An assignment of a source whose bytes take so long to copy."""
    used_bytes = None if seconds is None else seconds * int(FIRST_BYTES_PER_SECOND)
    return make_assignment(policy, make_source(used_bytes=used_bytes), **fields)


@pytest.mark.django_db
class TestSizes:
    def test_of_first_backups_the_smallest_comes_first_and_before_it_what_is_not_known(self) -> None:
        policy = make_policy()
        large, small, unknown = (holding(policy, seconds) for seconds in (9_000, 300, None))
        later = backed_up(policy, MONDAY - DAY, 5.0)
        Source.objects.filter(pk=later.source_id).update(used_bytes=1)
        planning.emit_due(NINE)
        asked = [claim("availability", NINE).subject for _ in range(4)]
        assert asked == [planning.subject_of(each.pk) for each in (unknown, small, large, later)]
        assert [record_of(each).expected_seconds for each in (unknown, small, large, later)] == [None, 300, 9_000, 5]

    def test_where_that_part_is_off_the_prior_order_holds(self, settings: Any) -> None:
        settings.ORDER_WITHOUT = ["sizes"]
        policy = make_policy()
        large, small = (holding(policy, seconds) for seconds in (9_000, 300))
        planning.emit_due(NINE)
        assert [claim("availability", NINE).subject for _ in range(2)] == [
            planning.subject_of(each.pk) for each in (large, small)
        ]

    def test_what_its_agent_says_later_counts_for_the_record_that_is_there(self) -> None:
        assignment, later = make_assignment(), backed_up(make_policy(), MONDAY - DAY, 5.0)
        planning.emit_due(NINE)
        for each in (assignment, later):
            each.source.used_bytes = 40 * int(FIRST_BYTES_PER_SECOND)
            planning.check_in(each.source, NINE + MINUTE)
        assert [record_of(each).expected_seconds for each in (assignment, later)] == [40, 5]

    def test_counts_for_a_backup_that_a_user_asks_for(self) -> None:
        assignment = holding(make_policy(), 70)
        planning.back_up_now([assignment], NINE)
        assert record_of(assignment).expected_seconds == 70


INSTANTS = st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001


class TestHours:
    @given(since=INSTANTS, seconds=st.floats(0, 200_000), share=st.floats(0, 1))
    def test_each_instant_of_a_stay_is_in_one_of_its_hours_and_no_other_hour_is(
        self, since: datetime, seconds: float, share: float
    ) -> None:
        until = since + timedelta(seconds=seconds)
        hours = wake_hours.seen(since, until)
        assert hours >> (since + (until - since) * share).hour & 1
        assert hours < 1 << 24
        assert hours.bit_count() <= seconds / 3_600 + 2
        assert all(wake_hours.allow(hours, until, each) for each in (since, until, since - HOUR, until + HOUR))

    @pytest.mark.parametrize(
        ("hour", "woken_hours_ago", "allowed"),
        [(7, 5, False), (8, 5, True), (10, 5, True), (11, 5, False), (23, 5, False), (23, 12, True), (23, None, True),
         (23, -5, False), (23, -30, True)],
    )  # fmt: skip
    def test_outside_them_a_packet_is_sent_each_12_hours(
        self, hour: int, woken_hours_ago: int | None, allowed: bool
    ) -> None:
        now = MONDAY + hour * HOUR + 59 * MINUTE
        woken_at = None if woken_hours_ago is None else now - woken_hours_ago * HOUR
        source = Source(mac_address="02:00:00:aa:bb:cc", last_woken_at=woken_at, seen_hours=AT_NINE)
        policy = Policy(wake_allowed=True, wake_every=14_400)
        assignment = Assignment(source=source, policy=policy, seen_hours=AT_NINE)
        outcome = wake.without_a_packet(make_claimed(), assignment, "silent", now)
        assert (outcome is None) is allowed
        if outcome:
            assert outcome.recheck_after == policy.recheck_after
            assert f"never there within an hour of {now:%H:%M} UTC" in outcome.reason

    def test_of_a_source_that_was_never_there_every_hour_will_do_and_where_that_part_is_off(
        self, settings: Any
    ) -> None:
        source = Source(mac_address="02:00:00:aa:bb:cc", last_woken_at=NINE + 9 * HOUR)
        assignment = Assignment(source=source, policy=Policy(wake_allowed=True))
        at_night = NINE + 14 * HOUR
        assert wake.without_a_packet(make_claimed(), assignment, "silent", at_night) is None
        assignment.seen_hours = AT_NINE
        assert wake.without_a_packet(make_claimed(), assignment, "silent", at_night) is not None
        settings.ORDER_WITHOUT = ["hours"]
        assert wake.without_a_packet(make_claimed(), assignment, "silent", at_night) is None

    @pytest.mark.django_db
    @pytest.mark.parametrize(
        "outcome",
        [Succeeded(EngineResult(Verdict.SUCCEEDED)), Unavailable("it went away", 900.0)],
        ids=["done", "lost"],
    )
    def test_are_those_in_which_it_answered_and_was_copied(self, outcome: Succeeded | Unavailable) -> None:
        assignment = make_assignment()
        planning.emit_due(NINE)
        settle(claim("availability", NINE), Unavailable("silent", 0.0), NINE)
        assignment.refresh_from_db()
        assert assignment.seen_hours == 0
        planning.check_in(assignment.source, NINE + HOUR)
        settle(claim("arrivals", NINE + HOUR), Handoff("backups", assignment.source.exclusive_key), NINE + HOUR)
        settle(claim("backups", NINE + HOUR), outcome, NINE + 3 * HOUR)
        assignment.refresh_from_db()
        assert assignment.seen_hours == 0b111 << 10


def seeding(limit: int | None, **fields: object) -> Policy:
    policy = make_policy(seeding_limit=limit, **fields)
    planning.limit_seeding(policy)
    return policy


def throttles_of(assignment: Assignment) -> set[int]:
    lane = record_of(assignment).lane
    return set(Lane.objects.get(pk=lane).throttle_ids) if lane else set()


@pytest.mark.django_db
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


@pytest.mark.django_db
def test_a_first_backup_is_held_by_both_and_a_later_one_by_the_policys_own() -> None:
    own = make_throttle(5)
    policy = seeding(2, throttle=own)
    new, known = make_assignment(policy), backed_up(policy, MONDAY - DAY)
    planning.emit_due(NINE)
    assert throttles_of(new) == {own.pk, policy.seeding_throttle_id}
    assert throttles_of(known) == {own.pk}


@pytest.mark.django_db
def test_back_up_now_of_what_was_never_backed_up_is_held_too() -> None:
    policy = seeding(2)
    assignment = make_assignment(policy)
    planning.back_up_now([assignment], NINE)
    assert throttles_of(assignment) == {policy.seeding_throttle_id}


@pytest.mark.django_db
def test_a_changed_limit_holds_what_is_on_the_backlog_already() -> None:
    policy = seeding(None)
    new, known = make_assignment(policy), backed_up(policy, MONDAY - DAY)
    planning.emit_due(NINE)
    edited(policy, seeding_limit=3)
    assert throttles_of(new) == {policy.seeding_throttle_id}
    assert throttles_of(known) == set()
    edited(policy, seeding_limit=1)
    assert Throttle.objects.get(pk=policy.seeding_throttle_id).max_in_flight == 1
    edited(policy, seeding_limit=None)
    assert throttles_of(new) == set()


@pytest.mark.django_db
def test_no_more_first_backups_are_asked_at_once_than_that_and_half_as_many_again() -> None:
    policy = seeding(2)
    for _ in range(30):
        make_assignment(policy)
    known = [backed_up(make_policy(), MONDAY - DAY) for _ in range(5)]
    planning.emit_due(NINE)
    asked = claim_ready(48, "availability", NINE)
    first = [record for record in asked if record.lane]
    assert (len(first), len(asked) - len(first)) == (3, len(known))


@pytest.mark.django_db
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
