"""Sources that break off in mid-backup again and again take no unit from those that are there."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backups.copying import losses
from engines.base import EngineResult, Verdict
from fleet.conditions.repositories import broken_off
from fleet.status import reasons_of
from jobs.models import BacklogRecord, Decision
from jobs.outcomes import ClaimedRecord, Succeeded, Unavailable
from jobs.priorities import FIRST_IN_LINE
from jobs.states import Status
from operations.finding import Look
from sources import planning
from sources.availability import check
from sources.models import Assignment, Policy
from tests.sources.factories import MONDAY, backed_up, claim, make_assignment, make_policy, record_of, settle
from tests.sources.planning.planned import DAY, HOUR, MINUTE, NINE, SECOND, announce
from tests.sources.virtual_fleet import Conduct, VirtualFleet, virtual_source

pytestmark = pytest.mark.django_db

TUESDAY = (MONDAY + DAY).date()


@pytest.mark.parametrize("every", [None, 1.0], ids=["without an agent", "that check in each second"])
def test_six_that_are_lost_after_three_seconds_leave_a_unit_to_three_that_are_there(every: float | None) -> None:
    fleet = VirtualFleet(1, NINE)
    for number in range(9):
        assignment = virtual_source(number, "UTC", vanish_grace=5)
        fleet.add(assignment, Conduct("lost", 3.0, checks_in_every=every) if number < 6 else Conduct("good", 10.0))
        fleet.emit(assignment, MONDAY - (5 if number < 6 else 0) * DAY)
    fleet.run(NINE + 80 * SECOND, stop=lambda: {6, 7, 8} <= set(fleet.ran))
    assert {6, 7, 8} <= set(fleet.ran)
    assert max(Counter(fleet.ran).values()) <= 2


def answered(assignment: Assignment, queue: str, now: datetime) -> ClaimedRecord:
    """Its record, claimed by an execution unit after its source was asked in `queue`."""
    asked = claim(queue, now)
    assignment.refresh_from_db()
    settle(asked, check.handed_on(assignment, "it answered"), now)
    return claim("backups", now)


def lose(
    assignment: Assignment, copied: ClaimedRecord, now: datetime, outcome: Unavailable | None = None
) -> BacklogRecord:
    assignment.refresh_from_db()
    lost = losses.counted(outcome or losses.lost(assignment.policy, "it was reset"), assignment)
    settle(copied, lost, now)
    assignment.refresh_from_db()
    return record_of(assignment)


def lost_twice(policy: Policy | None = None) -> Assignment:
    """Overdue for days; lost at nine, and again two minutes later."""
    assignment = backed_up(policy or make_policy(), MONDAY - 5 * DAY)
    planning.emit_due(NINE)
    first = lose(assignment, answered(assignment, "availability", NINE), NINE)
    assert (first.priority, first.run_after) == (FIRST_IN_LINE, NINE + 2 * MINUTE)
    assert announce(assignment.source, NINE + MINUTE) == 1
    second = lose(assignment, answered(assignment, "arrivals", NINE + 2 * MINUTE), NINE + 2 * MINUTE)
    assert (second.priority, second.run_after) == (0, NINE + 17 * MINUTE)
    assert second.failures == 0
    return assignment


class TestTheSecondInARow:
    def test_is_demoted_through_silence_answers_and_check_ins_until_a_success(self) -> None:
        assignment = lost_twice()
        place = (TUESDAY, NINE + 2 * MINUTE)

        def placed() -> tuple[object, object]:
            record = record_of(assignment)
            return record.rank_day, record.tried_at

        assert placed() == place
        assert announce(assignment.source, NINE + 16 * MINUTE) == 0
        assert announce(assignment.source, NINE + 17 * MINUTE) == 1
        assert announce(assignment.source, NINE + 17 * MINUTE + SECOND) == 0
        assert (record_of(assignment).queue, *placed()) == ("availability", *place)
        settle(claim("availability", NINE + 18 * MINUTE), Unavailable("silent", 900.0), NINE + 18 * MINUTE)
        assert placed() == (TUESDAY, NINE + 18 * MINUTE)
        assert announce(assignment.source, NINE + 20 * MINUTE) == 1
        assert (record_of(assignment).queue, *placed()) == ("availability", *place)
        copied = answered(assignment, "availability", NINE + DAY)
        assert (copied.rank_day, copied.tried_at) == place
        settle(copied, Succeeded(EngineResult(Verdict.SUCCEEDED)), NINE + DAY)
        assignment.refresh_from_db()
        assert (assignment.losses, assignment.vanished_at) == (0, None)

    @pytest.mark.parametrize("first", [None, Unavailable("its hook says: not now", 900.0)], ids=["reset", "hook"])
    def test_comes_behind_what_becomes_due_on_the_day_after(self, first: Unavailable | None) -> None:
        assignment = lost_twice()
        planning.emit_due(NINE + DAY, [backed_up(make_policy(), MONDAY).pk])
        again = NINE + DAY
        BacklogRecord.objects.filter(status=Status.WAITING).update(status=Status.READY, waiting_for=None)
        other = claim("availability", again)
        assert other.subject != planning.subject_of(assignment.pk)
        record = lose(assignment, answered(assignment, "availability", again), again, first)
        assert (record.rank_day, record.tried_at) == (TUESDAY + DAY, again)
        assert record.run_after == again + 15 * MINUTE

    def test_is_not_asked_at_once_for_a_check_in_before_it_was_settled(self) -> None:
        assignment = lost_twice()
        BacklogRecord.objects.update(status=Status.READY, waiting_for=None)
        copied = answered(assignment, "availability", NINE + HOUR)
        announce(assignment.source, NINE + HOUR)
        record = lose(assignment, copied, NINE + HOUR + MINUTE)
        assert (record.status, record.priority) == (Status.WAITING, 0)

    def test_is_not_first_when_it_is_emitted_again(self) -> None:
        assignment = lost_twice()
        planning.pause([assignment.source], NINE + HOUR)
        planning.resume([assignment.source], NINE + HOUR)
        assert record_of(assignment).rank_day == TUESDAY

    def test_is_told_where_its_state_is(self) -> None:
        assignment = lost_twice()
        words = "broke off 2 times in a row, last at 2026-03-02 09:02:00 UTC"
        assert f"its backup {words}; " in reasons_of([assignment.source], NINE + HOUR)[assignment.source.pk]
        assert f"{assignment.source} {words}" in broken_off.examined(Look(NINE + HOUR)).what
        assert words in Decision.objects.filter(what="vanished").latest("id").text


class TestAFirstBackup:
    """It continues where it was cut, so it need not come first again."""

    def test_stands_behind_what_is_there_from_its_first_loss_on(self) -> None:
        assignment = make_assignment()
        planning.emit_due(NINE)
        lost = lose(assignment, answered(assignment, "availability", NINE), NINE)
        assert (lost.priority, lost.run_after, lost.failures) == (0, NINE + 15 * MINUTE, 0)
        assert (lost.rank_day, lost.tried_at) == (TUESDAY, NINE)
        assert announce(assignment.source, NINE + MINUTE) == 0
        assert announce(assignment.source, NINE + 16 * MINUTE) == 1
        copied = answered(assignment, "availability", NINE + 16 * MINUTE)
        assert (copied.priority, copied.rank_day, copied.tried_at) == (0, TUESDAY, NINE)
        settle(copied, losses.asked_again(assignment, "it answered long ago"), NINE + 18 * MINUTE)
        assert (record_of(assignment).queue, record_of(assignment).rank_day) == ("availability", TUESDAY)
        planning.pause([assignment.source], NINE + HOUR)
        planning.resume([assignment.source], NINE + HOUR)
        assert record_of(assignment).rank_day == TUESDAY
        words = "its backup broke off at 2026-03-02 09:00:00 UTC"
        assert words in reasons_of([assignment.source], NINE + HOUR)[assignment.source.pk]

    def test_comes_first_once_more_where_that_part_of_the_order_is_off(self, settings: Any) -> None:
        settings.ORDER_WITHOUT = ["resume"]
        assignment = make_assignment()
        planning.emit_due(NINE)
        lost = lose(assignment, answered(assignment, "availability", NINE), NINE)
        assert (lost.priority, lost.run_after, lost.rank_day) == (FIRST_IN_LINE, NINE + 2 * MINUTE, None)
        planning.pause([assignment.source], NINE + HOUR)
        planning.resume([assignment.source], NINE + HOUR)
        assert record_of(assignment).rank_day is None


CONDUCTS = st.builds(
    Conduct,
    st.sampled_from(["lost", "lost", "hangs", "fails"]),
    copy_seconds=st.sampled_from([5.0, 60.0]),
    answers=st.sampled_from([True, True, True, False]),
    checks_in_every=st.sampled_from([None, 5.0]),
)
ZONES = st.sampled_from(["UTC", "America/Los_Angeles", "Pacific/Auckland"])
GRACE = 3.0
RULES = {"vanish_grace": GRACE, "recheck_after": 5.0}


@pytest.mark.slow
@settings(max_examples=15)
@given(
    bad=st.lists(st.tuples(CONDUCTS, ZONES, st.booleans()), min_size=4, max_size=8),
    zones=st.lists(ZONES, min_size=1, max_size=4),
    units=st.integers(1, 2),
    hour=st.integers(0, 23),
)
def test_whatever_some_do_those_that_are_there_are_backed_up_within_two_attempts_of_each(
    bad: list[tuple[Conduct, str, bool]], zones: list[str], units: int, hour: int
) -> None:
    """At an hour of two days, before which the others were tried as often as they may be for half an hour."""
    begins = MONDAY + hour * HOUR
    fleet = VirtualFleet(units, begins)
    of_zone = [virtual_source(number, zone, first=first, **RULES) for number, (_, zone, first) in enumerate(bad)]
    for assignment, (conduct, *_) in zip(of_zone, bad, strict=True):
        fleet.add(assignment, conduct)
        fleet.emit(assignment, MONDAY - 5 * DAY)
    there = [virtual_source(100 + number, zone, **RULES) for number, zone in enumerate(zones)]
    for assignment in there:
        fleet.add(assignment, Conduct(copy_seconds=5.0))
    longest = max(conduct.copy_seconds for conduct, *_ in bad) + GRACE
    work = sum(2 * (conduct.copy_seconds + GRACE + 1) for conduct, *_ in bad) + 6 * len(there)
    names = {each.pk for each in there}
    for at in (begins, begins + DAY):
        fleet.now = at - HOUR / 2 if at > begins else at
        fleet.run(at)
        fleet.ran.clear()
        for assignment in there:
            fleet.emit(assignment, at)
        fleet.run(at + timedelta(seconds=work / units + longest + 5), stop=lambda: names <= set(fleet.ran))
        assert names <= set(fleet.ran)
        fleet.run(fleet.now + 10 * MINUTE)
