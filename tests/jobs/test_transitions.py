"""The state of a record after each outcome: tables, no clock and no database."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.outcomes import (
    Cancelled,
    ClaimedRecord,
    Failed,
    Handoff,
    Held,
    Outcome,
    Postponed,
    Released,
    Succeeded,
    Unavailable,
)
from jobs.priorities import FIRST_IN_LINE, MAX_PRIORITY, WOKEN
from jobs.retries import ALGORITHMS, LARGEST, LONGEST, SHORTEST, Failure, Rule
from jobs.retries.phases import PhasePlaces, phase
from jobs.states import AttemptOutcome, Status, WaitingFor
from jobs.transitions import LOOKED_AT_AGAIN_AFTER, Transition, transition, wait_after
from tests.factories import NOON, make_claimed

TODAY = NOON.date()
LATER = NOON + timedelta(hours=3)
YESTERDAY, TOMORROW = TODAY - timedelta(days=1), TODAY + timedelta(days=1)
LAST_WEEK = NOON - timedelta(days=7)
DAY = 86_400
FIVE_MINUTES = Rule("constant", {"base": 300})


def after(
    record: ClaimedRecord, outcome: Outcome, *, rule: Rule = FIVE_MINUTES, now: datetime = NOON, **more: Any
) -> Transition:
    return transition(record, outcome, home_queue="home", rule=rule, now=now, **{"zone": "UTC", **more})


def then(record: ClaimedRecord, change: Transition, **more: Any) -> ClaimedRecord:
    """The record as its next claim returns it."""
    kept = ("queue", "priority", "rank_day", "tried_at", "failures", "first_failure_at", "last_failure_at")
    values = {name: getattr(change, name) for name in kept} | {"exclusive_key": change.exclusive_key}
    return make_claimed(**{**record._asdict(), **values, "attempt": record.attempt + 1, **more})


OUTCOMES = [
    (Succeeded(), Status.SUCCEEDED, None, "home", AttemptOutcome.SUCCEEDED),
    (Cancelled("gone"), Status.CANCELLED, None, "home", AttemptOutcome.CANCELLED),
    (Released(), Status.READY, None, "home", AttemptOutcome.RELEASED),
    (Handoff("backups"), Status.READY, None, "backups", AttemptOutcome.HANDOFF),
    (Unavailable("away", 900), Status.WAITING, WaitingFor.RECHECK, "home", AttemptOutcome.UNAVAILABLE),
    (Failed("no"), Status.WAITING, WaitingFor.BACKOFF, "home", AttemptOutcome.FAILED),
    (Failed("no", rescued=True), Status.WAITING, WaitingFor.BACKOFF, "home", AttemptOutcome.RESCUED),
    (Held(3, "breaker"), Status.WAITING, WaitingFor.BREAKER, "home", AttemptOutcome.RELEASED),
    (Held(3, "full", tried=True), Status.WAITING, WaitingFor.BREAKER, "home", AttemptOutcome.FAILED),
    (Postponed(NOON, WaitingFor.SNOOZE, "later"), Status.WAITING, WaitingFor.SNOOZE, "home", AttemptOutcome.RELEASED),
]
FINAL = {Status.SUCCEEDED, Status.FAILED, Status.CANCELLED}


class TestEveryOutcome:
    @pytest.mark.parametrize(("outcome", "status", "waiting_for", "queue", "attempt_outcome"), OUTCOMES)
    def test_leads_to_its_status_queue_and_history(self, outcome, status, waiting_for, queue, attempt_outcome):
        change = after(make_claimed(queue="backups", exclusive_key="source:1"), outcome)
        assert (change.status, change.waiting_for) == (status, waiting_for)
        assert (change.queue, change.attempt_outcome) == (queue, attempt_outcome)
        assert change.exclusive_key is None
        assert change.finished_at == (NOON if status in FINAL else None)
        if waiting_for == WaitingFor.BREAKER:
            assert (change.breaker_id, change.run_after) == (3, NOON + LOOKED_AT_AGAIN_AFTER)

    @pytest.mark.parametrize("outcome", [row[0] for row in OUTCOMES if not isinstance(row[0], Failed)])
    def test_that_is_no_failure_costs_no_failure(self, outcome):
        record = make_claimed(failures=3, first_failure_at=LAST_WEEK, last_failure_at=LAST_WEEK)
        change = after(record, outcome)
        assert (change.failures, change.first_failure_at, change.last_failure_at) == (3, LAST_WEEK, LAST_WEEK)

    @pytest.mark.parametrize("outcome", [Succeeded(), Cancelled(), Released(), Held(3, "full", True)])
    def test_that_says_nothing_about_the_source_leaves_its_place(self, outcome):
        record = make_claimed(due_day=YESTERDAY, rank_day=TODAY, tried_at=NOON, priority=100)
        change = after(record, outcome)
        assert (change.rank_day, change.tried_at, change.priority) == (TODAY, NOON, 100)

    def test_waits_until_no_instant_in_the_past(self):
        assert after(make_claimed(), Postponed(LAST_WEEK, WaitingFor.SNOOZE, "later")).run_after == NOON


class TestSilence:
    def test_puts_the_next_contact_off_by_what_the_handler_says(self):
        change = after(make_claimed(), Unavailable("away", 900))
        assert change.run_after == NOON + timedelta(seconds=900)
        assert change.error == "away"

    @pytest.mark.parametrize(
        ("rank_day", "expected"), [(None, TODAY), (YESTERDAY, TODAY), (TODAY, TODAY), (TOMORROW, TOMORROW)]
    )
    def test_ranks_it_under_the_later_of_its_day_and_today(self, rank_day, expected):
        change = after(make_claimed(due_day=rank_day, rank_day=rank_day), Unavailable("away", 900))
        assert (change.rank_day, change.tried_at) == (expected, NOON)

    @pytest.mark.parametrize(
        ("zone", "day"),
        [("UTC", date(2026, 3, 2)), ("Asia/Tokyo", date(2026, 3, 3)), ("America/Lima", date(2026, 3, 2))],
    )
    def test_counts_days_in_the_zone_of_the_schedule(self, zone, day):
        change = after(make_claimed(), Unavailable("away", 1), now=datetime(2026, 3, 2, 22, tzinfo=UTC), zone=zone)
        assert change.rank_day == day

    OWN = (-MAX_PRIORITY, 0, 7, MAX_PRIORITY + 100)

    @pytest.mark.parametrize("usual", OWN)
    @pytest.mark.parametrize(
        ("first", "added"),
        [
            (Unavailable("lost", 180, first_in_line=True), FIRST_IN_LINE),
            (Unavailable("woken", 180, woken=True), WOKEN),
        ],
    )
    def test_of_what_was_lost_or_woken_gives_the_first_place_for_one_re_check_only(self, usual, first, added):
        record = make_claimed(due_day=YESTERDAY, rank_day=YESTERDAY, priority=usual)
        change = after(record, first)
        assert (change.priority, change.rank_day, change.tried_at) == (usual + added, YESTERDAY, None)
        ahead = then(record, change)
        assert [after(ahead, outcome).priority - added for outcome in (first, Released())] == [usual, usual]
        for outcome in (Unavailable("away", 900), Failed("no"), Succeeded()):
            assert after(ahead, outcome).priority == usual

    @pytest.mark.parametrize("usual", OWN)
    def test_of_what_was_woken_alone_keeps_that_place_through_its_answer_until_the_next_attempt_ends(self, usual):
        for added, kept in ((FIRST_IN_LINE, 0), (WOKEN, WOKEN)):
            answered = after(make_claimed(priority=usual + added), Handoff("backups"))
            assert answered.priority == usual + kept
            copied = then(make_claimed(), answered)
            assert after(copied, Released()).priority == usual + kept
            for outcome in (Unavailable("lost", 9), Failed("no"), Postponed(NOON, WaitingFor.RECHECK, "busy")):
                assert after(copied, outcome).priority == usual

    def test_of_what_was_lost_again_is_not_ended_by_an_answer(self):
        record = make_claimed(due_day=YESTERDAY, rank_day=YESTERDAY, priority=FIRST_IN_LINE)
        lost = after(record, Unavailable("lost", 900, lost_again=True))
        assert (lost.priority, lost.rank_day, lost.tried_at) == (0, TOMORROW, NOON)
        silent = after(then(record, lost), Unavailable("away", 900), now=LATER)
        assert (silent.rank_day, silent.tried_at) == (TOMORROW, LATER)
        answered = after(then(record, silent), Handoff("backups", lost_at=NOON), now=LATER)
        assert (answered.rank_day, answered.tried_at) == (TOMORROW, NOON)
        failed = make_claimed(due_day=YESTERDAY, failures=3, first_failure_at=LAST_WEEK, last_failure_at=NOON)
        assert after(failed, Handoff("backups", lost_at=LAST_WEEK)).rank_day == TODAY + timedelta(days=3)

    def test_of_what_is_not_charged_leaves_its_place(self):
        record = make_claimed(rank_day=YESTERDAY, tried_at=LAST_WEEK)
        silent = after(record, Unavailable("asleep", 900, keeps_place=True))
        assert (silent.rank_day, silent.tried_at) == (YESTERDAY, LAST_WEEK)


class TestAnswer:
    @given(st.integers(0, 12), st.sampled_from([None, YESTERDAY, TODAY]), st.lists(st.integers(1, 400), min_size=1))
    def test_puts_what_was_silent_in_between_where_its_failures_had_put_it(self, failures, due_day, hours):
        failed = make_claimed(due_day=due_day, rank_day=due_day)
        for _ in range(failures):
            failed = then(failed, after(failed, Failed("no")))
        silent, now = failed, NOON
        for pause in hours:
            now += timedelta(hours=pause)
            silent = then(silent, after(silent, Unavailable("away", 900), now=now))
        answered = after(silent, Handoff("backups"), now=now + timedelta(minutes=5))
        assert (answered.rank_day, answered.tried_at) == (failed.rank_day, failed.tried_at)

    def test_puts_what_failed_in_earlier_periods_where_its_emission_had_put_it(self):
        record = make_claimed(due_day=YESTERDAY, rank_day=TODAY + timedelta(days=3), failures=3)
        later = NOON + timedelta(days=9)
        silent = then(record, after(record, Unavailable("away", 900), now=later))
        answered = after(silent, Handoff("backups"), now=later, inserted_at=NOON)
        assert (answered.rank_day, answered.tried_at) == (TODAY + timedelta(days=3), None)

    def test_puts_what_failed_and_was_lost_where_the_later_of_both_had_put_it(self):
        failed = make_claimed(due_day=YESTERDAY, failures=1, last_failure_at=NOON - timedelta(hours=1))
        answered = after(failed, Handoff("backups", lost_at=NOON - timedelta(hours=2)))
        assert answered.tried_at == failed.last_failure_at

    def test_puts_what_a_wrong_clock_dated_in_the_future_where_a_failure_of_today_would(self):
        failed = make_claimed(due_day=YESTERDAY, failures=1, last_failure_at=NOON + timedelta(days=5))
        assert after(failed, Handoff("backups")).rank_day == TOMORROW


class TestFailure:
    @pytest.mark.parametrize("last", [LAST_WEEK, None], ids=["its own", "of an earlier record"])
    def test_counts_and_remembers_the_first_and_the_last(self, last):
        record = make_claimed(failures=2, first_failure_at=LAST_WEEK, last_failure_at=last)
        change = after(record, Failed("x" * 100_000))
        assert (change.failures, change.first_failure_at, change.last_failure_at) == (3, LAST_WEEK, NOON)
        assert change.error == "x" * 4000

    @pytest.mark.parametrize(
        ("rule", "status"),
        [
            (Rule("constant", {}, max_failures=4), Status.WAITING),
            (Rule("constant", {}, max_failures=3), Status.FAILED),
            (Rule(give_up_after=7 * DAY + 1), Status.WAITING),
            (Rule(give_up_after=7 * DAY), Status.FAILED),
        ],
    )
    def test_gives_up_at_the_limit_of_its_policy(self, rule, status):
        record = make_claimed(failures=2, first_failure_at=LAST_WEEK, last_failure_at=LAST_WEEK)
        change = after(record, Failed("no"), rule=rule)
        assert change.status == status
        assert (change.waiting_for is None) == (change.finished_at is not None) == (status == Status.FAILED)

    def test_waits_as_its_retry_policy_says_for_the_new_count(self):
        fibonacci = Rule("fibonacci", {"unit": 60})
        change = after(make_claimed(failures=5), Failed("no"), rule=fibonacci)
        assert change.run_after == NOON + timedelta(seconds=8 * 60)

    @pytest.mark.parametrize(("failures", "days"), [(0, 1), (1, 2), (6, 7), (7, 7), (10**6, 7)])
    def test_demotes_by_a_day_a_failure_and_a_week_at_most(self, failures: int, days: int):
        change = after(make_claimed(due_day=YESTERDAY, rank_day=YESTERDAY, failures=failures), Failed("no"))
        assert (change.rank_day, change.tried_at) == (TODAY + timedelta(days=days), NOON)

    def test_ends_what_a_person_added_to_the_priority(self):
        assert after(make_claimed(priority=107), Failed("no"), usual_priority=7).priority == 7

    def test_whose_first_one_lies_in_the_future_is_counted_from_now(self):
        record = make_claimed(failures=2, first_failure_at=NOON + timedelta(days=9), last_failure_at=NOON)
        change = after(record, Failed("no"), rule=Rule("phased"))
        assert change.first_failure_at == NOON
        assert NOON < change.run_after <= NOON + timedelta(seconds=76)

    def test_whose_first_one_is_not_known_waits_as_one_on_time(self):
        record = make_claimed(failures=2, last_failure_at=NOON)
        change = after(record, Failed("no"), rule=Rule("phased"))
        on_time = PhasePlaces(1, DAY).gap(3, phase(record.id))
        assert change.run_after - NOON == pytest.approx(timedelta(seconds=on_time), abs=timedelta(seconds=1))
        assert change.first_failure_at == NOON

    @pytest.mark.parametrize(("asked", "waits"), [(60, 300), (7_200, 7_200), (10 * DAY, DAY)])
    def test_waits_as_long_as_a_server_asked_for_a_day_at_most(self, asked: float, waits: float):
        assert after(make_claimed(), Failed("busy", retry_after=asked)).run_after == NOON + timedelta(seconds=waits)


class TestFailureUnderPhased:
    RULE = Rule("phased", {"unit": 15}, max_delay=DAY)

    def test_leads_along_the_places_of_its_record(self):
        record, line, now = make_claimed(), PhasePlaces(15, DAY), NOON
        for k in range(1, 9):
            change = after(record, Failed("no"), rule=self.RULE, now=now)
            place = line.place(k, phase(record.id))
            assert (change.run_after - NOON).total_seconds() == pytest.approx(place, abs=0.01)
            record, now = then(record, change), change.run_after + timedelta(seconds=1)


class TestFailureUnderProgressive:
    RULE = Rule("progressive")
    INSERTED = NOON - timedelta(days=3)

    def test_waits_for_a_sweep_and_at_the_longest_until_none_covers_it(self):
        change = after(make_claimed(failures=700), Failed("no"), rule=self.RULE, inserted_at=self.INSERTED)
        assert (change.status, change.waiting_for) == (Status.WAITING, WaitingFor.SWEEP)
        assert change.run_after == self.INSERTED + timedelta(days=360)
        assert change.failures == 701

    @pytest.mark.parametrize("inserted_at", [None, NOON + timedelta(days=2)], ids=["unknown", "in the future"])
    def test_counts_a_record_of_no_known_age_from_now(self, inserted_at):
        change = after(make_claimed(), Failed("no"), rule=self.RULE, inserted_at=inserted_at)
        assert change.run_after == NOON + timedelta(days=360)


class TestWaitAfter:
    @pytest.mark.parametrize("name", sorted(ALGORITHMS))
    @given(
        number=st.integers(1, 10**12),
        value=st.floats(SHORTEST, LONGEST),
        cap=st.integers(1, LARGEST),
        age=st.floats(0, 359 * 86_400),
    )
    def test_is_a_date_for_whatever_a_valid_policy_says(self, name, number, value, cap, age):
        algorithm = ALGORITHMS[name]
        rule = Rule(name, {key: value for key in algorithm.defaults if key not in algorithm.choices}, cap)
        at = NOON.timestamp()
        waiting_for, until = wait_after(Failure(number, at, at - age, at - age, 7), rule)
        assert waiting_for == (WaitingFor.SWEEP if name == "progressive" else WaitingFor.BACKOFF)
        longest = 360 * 86_400 if name == "progressive" else cap
        assert NOON <= until <= NOON + timedelta(seconds=longest)
