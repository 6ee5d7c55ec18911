"""Trials of an open breaker: which record is one, what it tells, its window. All instants are injected."""

from datetime import datetime, timedelta

import pytest

from jobs import breakers, settling
from jobs import tick as ticks
from jobs.backlog import cancel
from jobs.breakers import verbs
from jobs.handlers import Kind, StepDue, registry
from jobs.models import BacklogRecord
from jobs.order import in_claim_order
from jobs.outcomes import Failed, Released, Unavailable
from jobs.prepared_statements import STEP_SECONDS
from jobs.states import WaitingFor
from tests.factories import NOON, claim_ready
from tests.jobs.breaking import (
    HOUR,
    MINUTE,
    OFFICE,
    SECOND,
    breaker,
    fail,
    held_ids,
    hold,
    open_it,
    ready_ids,
    succeed,
    tick,
    trial,
)

pytestmark = pytest.mark.django_db


class TestTrials:
    def test_trials_that_fail_are_followed_by_others_after_fibonacci_numbers_up_to_the_longest(self):
        open_it()
        hold(3)
        tick(NOON + MINUTE - SECOND)
        assert not ready_ids()
        now, waits = breaker().probe_at, []
        for _ in range(9):
            record = trial(now)
            fail([record], now + SECOND)
            waits.append((breaker().probe_at - now - SECOND) / MINUTE)
            tick(breaker().probe_at - SECOND)
            assert not ready_ids()
            now = breaker().probe_at
        assert waits == [1, 2, 3, 5, 8, 13, 15, 15, 15]
        assert breaker().trials == 9

    def test_they_are_chosen_in_claim_order_and_one_that_fails_again_and_again_keeps_none_from_being_tried(self):
        open_it()
        days = [None, NOON.date() - timedelta(days=3), NOON.date()]
        for number in range(6):
            hold(priority=number % 2, rank_day=days[number % 3], expected_seconds=float(number * 5 % 7) or None)
        expected = [record.pk for record in in_claim_order(BacklogRecord.objects.all())]
        chosen = []
        for _ in range(12):
            now = breaker().probe_at
            record = trial(now)
            chosen.append(record.id)
            fail([record], now)
        assert chosen == expected * 2

    def test_a_trial_that_succeeds_lets_all_through(self):
        open_it()
        held = hold(4)
        record = trial(NOON + MINUTE)
        succeed([record], NOON + MINUTE + SECOND)
        found = breaker()
        assert (found.is_open, found.failures, found.trials, found.trial_id) == (False, 0, 0, None)
        tick(NOON + MINUTE + 2 * SECOND)
        assert not held_ids()
        assert set(ready_ids()) >= set(held) - {record.id}
        assert breaker().probe_at is None
        assert not BacklogRecord.objects.filter(breaker__isnull=False).exists()


class TestTrialsThatTellNothing:
    """The next one follows within seconds, and is counted as no trial failed."""

    def next_one(self, first: int, now) -> None:
        tick(now)
        assert breaker().trial_id not in (None, first)
        assert breaker().trials == 0
        assert breaker().is_open

    @pytest.mark.parametrize(
        "outcome",
        [
            Unavailable("it is silent", 900),
            Failed("permission denied"),
            Failed("the worker", rescued=True),
            "cancelled",
        ],
    )
    def test_its_source_is_absent_fails_by_itself_or_is_cancelled(self, outcome):
        open_it()
        hold(3)
        record = trial(NOON + MINUTE)
        if outcome == "cancelled":
            cancel([record.id], now=NOON + MINUTE)
            outcome = Released()
        settling.settle([(record, outcome)], now=NOON + MINUTE + SECOND)
        self.next_one(record.id, NOON + MINUTE + breakers.LOOK_AFTER)

    @pytest.mark.parametrize("runs", [True, False])
    def test_one_that_runs_or_stands_in_its_queue_for_long_is_joined_by_another(self, runs):
        open_it()
        hold(3)
        tick(NOON + MINUTE)
        first = breaker().trial_id
        if runs:
            claim_ready(now=NOON + MINUTE)
        tick(NOON + MINUTE + breakers.TRIAL_PATIENCE - SECOND)
        assert breaker().trial_id == first
        self.next_one(first, NOON + MINUTE + breakers.TRIAL_PATIENCE + breakers.LOOK_AFTER)

    def test_its_window_closes_before_it_is_claimed(self, windows):
        open_it()
        hold(1, closes_at=NOON + MINUTE + SECOND, priority=1)
        hold(2)
        tick(NOON + MINUTE)
        [first] = ready_ids()
        tick(NOON + MINUTE + 2 * SECOND)
        assert BacklogRecord.objects.get(pk=first).waiting_for == WaitingFor.WINDOW
        self.next_one(first, NOON + MINUTE + breakers.LOOK_AFTER)

    def test_a_worker_that_shuts_down_gives_it_back_and_it_is_still_the_trial(self):
        open_it()
        hold(3)
        record = trial(NOON + MINUTE)
        settling.settle([(record, Released())], now=NOON + MINUTE + SECOND)
        tick(NOON + 2 * MINUTE)
        [again] = claim_ready(now=NOON + 2 * MINUTE)
        assert again.id == record.id
        assert breakers.refusal(OFFICE, again) is None

    def test_while_none_is_there_to_try_it_looks_again_after_a_probe(self):
        open_it()
        tick(NOON + MINUTE)
        assert (breaker().trial_id, breaker().probe_at) == (None, NOON + 2 * MINUTE)
        hold(1, NOON + MINUTE + SECOND)
        assert trial(NOON + 2 * MINUTE)


@pytest.fixture
def windows(monkeypatch):
    """Kind `test` with a window that opens tomorrow, but for records of priority 5, whose window is open now."""

    def next_opening(records, now):
        rows = BacklogRecord.objects.in_bulk([record_id for record_id, _ in records])
        return {
            pk: (now, now + HOUR) if row.priority == 5 else (now + timedelta(days=1), now + timedelta(days=2))
            for pk, row in rows.items()
        }

    monkeypatch.setattr(registry, "kinds", {**registry.kinds, "test": Kind("test", next_opening=next_opening)})


@pytest.mark.usefixtures("windows")
class TestWindows:
    def test_a_record_whose_window_closed_while_it_waited_is_no_trial(self):
        open_it()
        hold(1, priority=9, closes_at=NOON + SECOND)
        [still_open] = hold(1, closes_at=NOON + HOUR)
        assert trial(NOON + MINUTE).id == still_open

    def test_with_all_windows_closed_they_wait_for_those_and_for_the_breaker_no_more(self):
        open_it()
        hold(3, closes_at=NOON + SECOND)
        tick(NOON + MINUTE)
        assert set(BacklogRecord.objects.values_list("waiting_for", flat=True)) == {WaitingFor.WINDOW}
        assert breaker().is_open

    def test_one_whose_window_is_open_again_is_tried_under_the_new_opening(self):
        open_it()
        [yesterdays] = hold(1, closes_at=NOON + SECOND, priority=5)
        tick(NOON + MINUTE)
        [record] = claim_ready(now=NOON + MINUTE)
        assert (record.id, record.closes_at) == (yesterdays, NOON + MINUTE + HOUR)
        settling.settle([(record, breakers.refusal(OFFICE, record))], now=NOON + MINUTE)
        assert trial(NOON + MINUTE + breakers.LOOK_AFTER).id == yesterdays

    def test_when_it_closes_what_is_out_of_its_window_waits_for_that(self):
        open_it()
        hold(1, closes_at=NOON + SECOND)
        verbs.close([breaker().pk], now=NOON + MINUTE)
        tick(NOON + MINUTE)
        assert BacklogRecord.objects.get().waiting_for == WaitingFor.WINDOW


def test_each_step_of_a_tick_may_take_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = list[float]()

    def step(now: datetime, seconds: float) -> int:
        taken.append(seconds)
        return 0

    for module, name in ((ticks, "promote"), (breakers, "let_trials_through"), (ticks, "close_windows")):
        monkeypatch.setattr(module, name, step)
    due = ticks.Due(NOON, NOON, NOON, None, NOON, frozenset(), StepDue())
    ticks.act_on(due, rescue=False, emit_for=3 * ticks.EMIT_SECONDS)
    assert taken == [pytest.approx(3 * STEP_SECONDS)] * 3
