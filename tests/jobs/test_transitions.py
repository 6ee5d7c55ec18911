"""What a record becomes after each outcome: tables, no clock and no database."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from jobs.outcomes import (
    FIRST_IN_LINE,
    Cancelled,
    Claimed,
    Failed,
    Handoff,
    Outcome,
    Released,
    Succeeded,
    Transition,
    Unavailable,
    transition,
)
from jobs.retries import Rule
from jobs.states import AttemptOutcome, Status, WaitingFor
from tests.factories import NOON, make_claimed

TODAY = NOON.date()
YESTERDAY, TOMORROW = TODAY - timedelta(days=1), TODAY + timedelta(days=1)
LAST_WEEK = NOON - timedelta(days=7)
FIVE_MINUTES = Rule("constant", {"base": 300})


def after(
    record: Claimed, outcome: Outcome, *, rule: Rule = FIVE_MINUTES, now: datetime = NOON, **more: Any
) -> Transition:
    return transition(record, outcome, home_queue="home", rule=rule, now=now, **{"zone": "UTC", **more})


def then(record: Claimed, change: Transition, **more: Any) -> Claimed:
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

    @pytest.mark.parametrize("outcome", [row[0] for row in OUTCOMES if not isinstance(row[0], Failed)])
    def test_that_is_no_failure_costs_no_failure(self, outcome):
        record = make_claimed(failures=3, first_failure_at=LAST_WEEK, last_failure_at=LAST_WEEK)
        change = after(record, outcome)
        assert (change.failures, change.first_failure_at, change.last_failure_at) == (3, LAST_WEEK, LAST_WEEK)

    @pytest.mark.parametrize("outcome", [Succeeded(), Cancelled(), Released()])
    def test_that_says_nothing_about_the_source_leaves_its_place(self, outcome):
        record = make_claimed(due_day=YESTERDAY, rank_day=TODAY, tried_at=NOON, priority=100)
        change = after(record, outcome)
        assert (change.rank_day, change.tried_at, change.priority) == (TODAY, NOON, 100)


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

    def test_of_a_woken_source_keeps_its_place_and_comes_first_at_the_re_check(self):
        record = make_claimed(due_day=YESTERDAY, rank_day=YESTERDAY, priority=7)
        woken = after(record, Unavailable("woken", 180, first_in_line=True))
        assert woken.priority == 7 + FIRST_IN_LINE
        assert (woken.rank_day, woken.tried_at) == (YESTERDAY, None)

    @pytest.mark.parametrize("usual", [-5000, 0, 7, 1100])
    @pytest.mark.parametrize("outcome", [Unavailable("away", 900), Handoff("backups"), Failed("no"), Succeeded()])
    def test_of_a_woken_source_gives_the_first_place_for_one_re_check_only(self, usual, outcome):
        record = make_claimed(priority=usual)
        woken = then(record, after(record, Unavailable("woken", 180, first_in_line=True)))
        assert after(woken, outcome).priority == usual

    def test_of_a_woken_source_does_not_add_up(self):
        record = make_claimed(priority=7)
        woken = then(record, after(record, Unavailable("woken", 180, first_in_line=True)))
        assert after(woken, Unavailable("woken", 180, first_in_line=True)).priority == 7 + FIRST_IN_LINE

    def test_of_a_woken_source_keeps_the_first_place_over_a_clean_shutdown(self):
        record = make_claimed()
        woken = then(record, after(record, Unavailable("woken", 180, first_in_line=True)))
        assert after(woken, Released()).priority == FIRST_IN_LINE


class TestAnswer:
    def test_restores_the_place_that_silence_took(self):
        record = make_claimed(due_day=YESTERDAY, rank_day=YESTERDAY)
        silent = then(record, after(record, Unavailable("away", 900)))
        answered = after(silent, Handoff("backups", "source:1"))
        assert (answered.rank_day, answered.tried_at) == (YESTERDAY, None)
        assert answered.exclusive_key == "source:1"

    def test_restores_the_first_place_of_what_was_never_backed_up(self):
        record = make_claimed()
        silent = then(record, after(record, Unavailable("away", 900)))
        assert after(silent, Handoff("backups")).rank_day is None

    def test_leaves_what_a_failure_demoted_where_it_is(self):
        record = make_claimed(due_day=YESTERDAY, rank_day=YESTERDAY)
        failed = then(record, after(record, Failed("no")))
        answered = after(failed, Handoff("backups"), now=NOON + timedelta(minutes=5))
        assert (answered.rank_day, answered.tried_at) == (TODAY, NOON)


class TestFailure:
    def test_counts_and_remembers_the_first_and_the_last(self):
        record = make_claimed(failures=2, first_failure_at=LAST_WEEK, last_failure_at=LAST_WEEK)
        change = after(record, Failed("disk full"))
        assert (change.failures, change.first_failure_at, change.last_failure_at) == (3, LAST_WEEK, NOON)
        assert change.error == "disk full"

    def test_the_first_one_is_both(self):
        change = after(make_claimed(), Failed("no"))
        assert change.first_failure_at == change.last_failure_at == NOON

    def test_waits_as_its_retry_policy_says_for_the_new_count(self):
        fibonacci = Rule("fibonacci", {"unit": 60})
        change = after(make_claimed(failures=5), Failed("no"), rule=fibonacci)
        assert change.run_after == NOON + timedelta(seconds=8 * 60)

    @pytest.mark.parametrize(("failures", "status"), [(0, Status.WAITING), (1, Status.WAITING), (2, Status.FAILED)])
    def test_gives_up_at_the_last_allowed_one(self, failures, status):
        change = after(make_claimed(failures=failures), Failed("no"), rule=Rule("constant", {}, max_failures=3))
        assert change.status == status
        assert (change.waiting_for is None) == (change.finished_at is not None) == (status == Status.FAILED)

    def test_demotes_behind_everything_untried_that_is_due_by_now(self):
        change = after(make_claimed(due_day=YESTERDAY, rank_day=YESTERDAY), Failed("no"))
        assert (change.rank_day, change.tried_at) == (TODAY, NOON)

    def test_ends_what_a_person_added_to_the_priority(self):
        assert after(make_claimed(priority=107), Failed("no"), usual_priority=7).priority == 7

    def test_keeps_the_priority_of_a_record_without_a_schedule(self):
        assert after(make_claimed(priority=107), Failed("no"), usual_priority=None).priority == 107

    def test_cuts_an_endless_message(self):
        assert len(after(make_claimed(), Failed("x" * 100_000)).error) == 4000
