"""Breakers: when they open, whom they hold, how trials are chosen and what closes them. All instants are injected."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.test import override_settings

from jobs import breakers, claiming, emitter
from jobs.backlog import cancel, retry
from jobs.breakers import verbs
from jobs.clock import database_clock
from jobs.handlers import Kind, registry
from jobs.models import Attempt, BacklogRecord, Breaker, Decision
from jobs.order import in_claim_order
from jobs.outcomes import Failed, Guarded, Held, Released, Succeeded, Unavailable
from jobs.states import AttemptOutcome, Status, WaitingFor
from tests.factories import NOON, build_record, make_retry_policy
from tests.jobs.breaking import (
    CELLAR,
    FULL,
    HOUR,
    MINUTE,
    OFFICE,
    SECOND,
    breaker,
    claim_ready,
    claimed,
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


class TestOpening:
    def test_three_failures_in_a_row_open_it_and_the_third_waits_for_it_uncharged(self):
        records = claimed(3)
        for record in records[:2]:
            fail([record])
            assert not breaker().is_open
        fail(records[2:])
        found = breaker()
        assert (found.opened_at, found.failures, found.trials, found.trial_id) == (NOON, 3, 0, None)
        assert found.probe_at == NOON + MINUTE
        rows = BacklogRecord.objects.in_bulk([record.id for record in records])
        assert [rows[record.id].failures for record in records] == [1, 1, 0]
        assert held_ids() == {records[2].id}
        assert rows[records[2].id].last_error == FULL
        assert Attempt.objects.get(record_id=records[2].id).outcome == AttemptOutcome.FAILED

    def test_a_success_between_them_begins_the_count_anew(self):
        records = claimed(5)
        fail(records[:2])
        succeed(records[2:3])
        fail(records[3:])
        assert (breaker().failures, breaker().is_open) == (2, False)

    def test_sixteen_that_fail_at_once_open_it_once_and_do_not_put_the_first_trial_off(self):
        fail(claimed(16))
        assert (breaker().failures, breaker().trials) == (16, 0)
        assert breaker().probe_at == NOON + MINUTE
        assert len(held_ids()) == 14
        assert Decision.objects.filter(what="breaker opened").count() == 1

    def test_what_was_claimed_just_after_the_opening_was_no_trial_in_vain(self):
        open_it()
        late = claimed(2, NOON + SECOND)
        fail(late, NOON + 2 * SECOND)
        assert (breaker().trials, breaker().probe_at) == (0, NOON + MINUTE)
        assert {record.id for record in late} <= held_ids()

    def test_a_failure_of_the_records_own_counts_for_nobody(self):
        records = claimed(5)
        claiming.settle([(record, Failed("permission denied")) for record in records], now=NOON)
        assert not Breaker.objects.exists()

    def test_another_repository_goes_on(self):
        open_it()
        [record] = claimed()
        assert breakers.refusal(CELLAR, record) is None
        fail([record], guarded=CELLAR)
        assert not breaker(CELLAR).is_open

    @override_settings(JOBS={"BREAKER_AFTER": 1})
    def test_one_failure_is_enough_where_the_settings_say_so(self):
        fail(claimed())
        assert breaker().is_open

    def test_a_key_longer_than_its_column_is_cut_and_found_again(self):
        host = Guarded(f"host:{'a' * 250}\0", f"host {'a' * 250}\0")
        fail(claimed(3), guarded=host)
        [record] = claimed()
        assert isinstance(breakers.refusal(host, record), Held)

    def test_its_title_follows_the_repository_and_its_error_is_bounded(self):
        open_it()
        renamed = Guarded(OFFICE.key, "repository headquarters")
        claiming.settle([(claimed()[0], Failed("x" * 10_000, fault_of=renamed))], now=NOON)
        assert str(breaker()) == "repository headquarters"
        assert len(breaker().last_error) == 4000


class TestHolding:
    def test_a_refused_record_waits_with_its_place_its_failures_and_the_reason(self):
        open_it()
        [held] = hold(priority=7, rank_day=NOON.date(), failures=2)
        record = BacklogRecord.objects.get(pk=held)
        assert (record.priority, record.rank_day, record.tried_at, record.failures) == (7, NOON.date(), None, 2)
        assert (record.breaker_id, record.waiting_for) == (breaker().pk, WaitingFor.BREAKER)
        assert "3 failures in a row, the last one: no space left" in record.last_error
        assert Attempt.objects.get(record_id=held).outcome == AttemptOutcome.RELEASED

    def test_a_held_failure_gives_nobody_up(self):
        policy = make_retry_policy(max_failures=1)
        open_it()
        fail(claimed(retry_policy=policy))
        assert not BacklogRecord.objects.filter(status=Status.FAILED).exists()

    def test_a_refusal_that_is_settled_after_the_breaker_closed_does_not_wait(self):
        open_it()
        [record] = claimed()
        refused = breakers.refusal(OFFICE, record)
        assert refused is not None
        verbs.close([breaker().pk], now=NOON + SECOND)
        tick(NOON + SECOND)
        claiming.settle([(record, refused)], now=NOON + 2 * SECOND)
        assert BacklogRecord.objects.get(pk=record.id).status == Status.READY

    def test_what_waits_is_looked_at_after_a_day_should_nobody_let_it_through(self):
        open_it()
        [held] = hold()
        Breaker.objects.update(probe_at=NOON + timedelta(days=9))
        tick(NOON + timedelta(days=1))
        assert held in ready_ids()


class TestStaleResults:
    def test_a_failure_whose_lease_was_lost_counts_nothing(self):
        records = claimed(3)
        fail([record._replace(lease_token=uuid4()) for record in records])
        assert not Breaker.objects.exists()

    def test_one_in_a_batch_with_good_ones_counts_nothing_either(self):
        fail(claimed(1))
        stale, good = claimed(2)
        fail([stale._replace(lease_token=uuid4()), good])
        assert (breaker().failures, breaker().is_open) == (2, False)
        assert BacklogRecord.objects.get(pk=stale.id).status == Status.RUNNING

    def test_the_same_results_settled_again_are_counted_once(self):
        records = claimed(2)
        fail(records)
        fail(records)
        assert breaker().failures == 2

    def test_a_success_whose_lease_was_lost_closes_nothing(self):
        open_it()
        [record] = claimed(now=NOON + SECOND)
        succeed([record._replace(lease_token=uuid4())], NOON + MINUTE)
        assert breaker().is_open

    def test_a_cancelled_run_counts_nothing(self):
        records = claimed(3)
        cancel([record.id for record in records], now=NOON)
        fail(records)
        assert not Breaker.objects.exists()


class TestTrials:
    def test_the_first_one_comes_after_the_probe_and_is_the_only_one(self):
        open_it()
        hold(5)
        tick(NOON + MINUTE - SECOND)
        assert not ready_ids()
        tick(NOON + MINUTE)
        assert len(ready_ids()) == 1
        tick(NOON + 2 * MINUTE)
        assert len(ready_ids()) == 1
        assert breaker().trial_id == ready_ids()[0]

    def test_trials_in_vain_are_followed_by_others_after_fibonacci_numbers_up_to_the_longest(self):
        open_it()
        hold(3)
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

    def test_they_are_chosen_in_claim_order(self):
        open_it()
        days = [None, NOON.date() - timedelta(days=3), NOON.date()]
        for number in range(12):
            hold(priority=number % 2, rank_day=days[number % 3], expected_seconds=float(number * 5 % 7) or None)
        expected = [record.pk for record in in_claim_order(BacklogRecord.objects.all())]
        now, chosen = NOON, []
        for _ in range(12):
            now = breaker().probe_at
            record = trial(now)
            chosen.append(record.id)
            fail([record], now)
        assert chosen == expected

    def test_one_that_fails_again_and_again_does_not_keep_the_others_from_being_tried(self):
        open_it()
        [poison] = hold(priority=10_000)
        others = hold(2)
        chosen = []
        for _ in range(6):
            now = breaker().probe_at
            record = trial(now)
            chosen.append(record.id)
            fail([record], now)
        assert chosen == [poison, *others] * 2
        assert BacklogRecord.objects.get(pk=poison).priority == 10_000

    def test_a_trial_that_succeeds_lets_everybody_through(self):
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

    def test_thousands_are_let_through_in_batches(self, monkeypatch):
        open_it()
        waiting = WaitingFor.BREAKER
        BacklogRecord.objects.bulk_create(
            build_record(Status.WAITING, waiting_for=waiting, breaker=breaker()) for _ in range(2500)
        )
        verbs.close([breaker().pk], now=NOON)
        batches = []
        let_through = breakers.let_through
        monkeypatch.setattr(breakers, "let_through", lambda *given: batches.append(let_through(*given)) or batches[-1])
        assert breakers.look(NOON) == 2500
        assert [len(batch) for batch in batches] == [1000, 1000, 500]
        assert not held_ids()


class TestTrialsThatTellNothing:
    """The next one follows within seconds, and is counted as no trial in vain."""

    def next_one(self, first: int, now) -> None:
        tick(now)
        assert breaker().trial_id not in (None, first)
        assert breaker().trials == 0
        assert breaker().is_open

    @pytest.mark.parametrize(
        "outcome", [Unavailable("it is silent", 900), Failed("permission denied"), Failed("the worker", rescued=True)]
    )
    def test_its_source_is_absent_or_fails_by_itself(self, outcome):
        open_it()
        hold(3)
        record = trial(NOON + MINUTE)
        claiming.settle([(record, outcome)], now=NOON + MINUTE + SECOND)
        self.next_one(record.id, NOON + MINUTE + breakers.LOOK_AFTER)

    def test_it_is_cancelled(self):
        open_it()
        hold(3)
        record = trial(NOON + MINUTE)
        cancel([record.id], now=NOON + MINUTE)
        claiming.settle([(record, Released())], now=NOON + MINUTE + SECOND)
        self.next_one(record.id, NOON + MINUTE + breakers.LOOK_AFTER)

    def test_its_worker_is_killed(self):
        now = database_clock() + HOUR  # nothing is rescued soon after the server's start
        open_it(now)
        hold(3, now)
        record = trial(now + MINUTE)
        assert claiming.rescue(now=now + 3 * MINUTE) == 1
        self.next_one(record.id, now + 3 * MINUTE + breakers.LOOK_AFTER)

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
        claiming.settle([(record, Released())], now=NOON + MINUTE + SECOND)
        tick(NOON + 2 * MINUTE)
        [again] = claim_ready(NOON + 2 * MINUTE)
        assert again.id == record.id
        assert breakers.refusal(OFFICE, again) is None

    @pytest.mark.parametrize("runs", [True, False])
    def test_one_that_runs_or_stands_in_its_queue_for_long_is_joined_by_another(self, runs):
        open_it()
        hold(3)
        tick(NOON + MINUTE)
        first = breaker().trial_id
        if runs:
            claim_ready(NOON + MINUTE)
        tick(NOON + MINUTE + breakers.TRIAL_PATIENCE - SECOND)
        assert breaker().trial_id == first
        self.next_one(first, NOON + MINUTE + breakers.TRIAL_PATIENCE + breakers.LOOK_AFTER)

    def test_nobody_to_try_is_asked_for_again_after_a_probe(self):
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
        assert not held_ids()
        assert set(BacklogRecord.objects.values_list("waiting_for", flat=True)) == {WaitingFor.WINDOW}
        assert breaker().is_open

    def test_one_whose_window_is_open_again_is_tried_under_the_new_opening(self):
        open_it()
        [yesterdays] = hold(1, closes_at=NOON + SECOND, priority=5)
        tick(NOON + MINUTE)
        [record] = claim_ready(NOON + MINUTE)
        assert (record.id, record.closes_at) == (yesterdays, NOON + MINUTE + HOUR)
        claiming.settle([(record, breakers.refusal(OFFICE, record))], now=NOON + MINUTE)
        assert trial(NOON + MINUTE + breakers.LOOK_AFTER).id == yesterdays

    def test_when_it_closes_what_is_out_of_its_window_waits_for_that(self):
        open_it()
        hold(1, closes_at=NOON + SECOND)
        verbs.close([breaker().pk], now=NOON + MINUTE)
        tick(NOON + MINUTE)
        assert BacklogRecord.objects.get().waiting_for == WaitingFor.WINDOW


class TestClosing:
    def test_a_success_that_began_before_the_opening_brings_the_next_trial_and_does_not_close_it(self):
        long_one = claimed(now=NOON - HOUR)
        open_it()
        hold(3)
        succeed(long_one, NOON + SECOND)
        assert breaker().is_open
        tick(NOON + 2 * SECOND)
        assert breaker().trial_id is not None
        assert len(ready_ids()) == 1

    def test_a_success_in_the_batch_of_the_last_failure_leaves_it_open(self):
        *failing, good = claimed(4)
        claiming.settle(
            [(record, Failed(FULL, fault_of=OFFICE)) for record in failing] + [(good, Succeeded(proves=OFFICE))],
            now=NOON + SECOND,
        )
        assert breaker().is_open

    def test_a_person_closes_it_and_everybody_goes(self):
        open_it()
        held = hold(3)
        assert verbs.close([breaker().pk], now=NOON + SECOND, by="ann") == 1
        assert verbs.close([breaker().pk], now=NOON + SECOND) == 0
        tick(NOON + SECOND)
        assert set(ready_ids()) >= set(held)
        assert "ann closed it" in Decision.objects.get(what="breaker closed").text

    def test_a_person_has_it_probed_now(self):
        open_it()
        hold(3)
        assert verbs.probe_now([breaker().pk], now=NOON + SECOND) == 1
        tick(NOON + SECOND)
        assert len(ready_ids()) == 1
        assert verbs.probe_now([10**9], now=NOON) == 0

    def test_after_it_opens_anew_the_probes_begin_anew(self):
        open_it()
        hold(3)
        fail([trial(NOON + MINUTE)], NOON + MINUTE)
        verbs.close([breaker().pk], now=NOON + MINUTE)
        open_it(NOON + HOUR)
        assert (breaker().trials, breaker().probe_at) == (0, NOON + HOUR + MINUTE)

    def test_a_success_costs_no_write_while_nothing_is_wrong(self, django_assert_num_queries):
        fail(claimed())
        succeed(claimed())
        [record] = claimed()
        with django_assert_num_queries(1):
            breakers.judge([(record, Succeeded(proves=OFFICE))], {(record.id, record.lease_token)}, NOON)


class TestWhatPeopleDoMeanwhile:
    def test_a_record_retried_while_it_waits_is_the_trial(self):
        open_it()
        first, second = hold(2)
        retry([second], now=NOON + SECOND)
        [record] = claim_ready(NOON + SECOND)
        assert breakers.refusal(OFFICE, record) is None
        fail([record], NOON + 2 * SECOND)
        assert (breaker().trials, held_ids()) == (1, {first, second})

    def test_of_several_retried_those_that_are_no_trial_wait_again(self):
        open_it()
        held = hold(3)
        retry(held, now=NOON + SECOND)
        records = claim_ready(NOON + SECOND)
        refused = [(record, breakers.refusal(OFFICE, record)) for record in records]
        claiming.settle([(record, held) for record, held in refused if held], now=NOON + 2 * SECOND)
        assert len(held_ids()) == 2

    def test_a_cancelled_one_is_let_through_no_more(self):
        open_it()
        [held] = hold()
        cancel([held], now=NOON)
        verbs.close([breaker().pk], now=NOON)
        tick(NOON + SECOND)
        assert BacklogRecord.objects.get().status == Status.CANCELLED

    def test_a_cancelled_one_that_is_retried_bears_no_trace_of_the_breaker_once_it_is_settled(self):
        open_it()
        [held] = hold()
        cancel([held], now=NOON)
        retry([held], now=NOON + SECOND)
        verbs.close([breaker().pk], now=NOON)
        [record] = claim_ready(NOON + SECOND)
        claiming.settle([(record, Unavailable("silent", 60))], now=NOON + 2 * SECOND)
        assert BacklogRecord.objects.get().breaker_id is None
        tick(NOON + 3 * SECOND)
        assert BacklogRecord.objects.get().waiting_for == WaitingFor.RECHECK


def test_the_look_of_a_tick_finds_what_is_due_for_breakers():
    open_it()
    hold(1)
    assert not emitter.look(now=NOON).has_come(emitter.look(now=NOON).probe_at)
    assert emitter.tick(NOON + MINUTE, rescue=False).promoted == 1
