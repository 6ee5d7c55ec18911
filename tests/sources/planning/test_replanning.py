"""The effects of an edit, a wrong clock and the round of a minute on records that are planned."""

from datetime import timedelta

import pytest
from django.db import transaction

from jobs.models import BacklogRecord
from jobs.outcomes import Failed, Unavailable
from jobs.states import Status, WaitingFor
from schedules import emitter
from schedules.models import Schedule
from sources import planning
from sources.planning import emission
from tests.factories import claim_ready, make_retry_policy
from tests.sources.factories import (
    MONDAY,
    backed_up,
    claim,
    make_assignment,
    make_policy,
    record_of,
    settle,
    unfinished,
)
from tests.sources.planning.planned import DAY, HOUR, NIGHTS, NINE, edited, tick
from tests.threads import another_connection, at_once

pytestmark = pytest.mark.django_db


class TestReplan:
    def test_next_backup_dates_follow_the_new_period_from_the_last_start(self) -> None:
        policy = make_policy()
        assignment = backed_up(policy, NINE)
        edited(policy, NINE + HOUR, cron="0 */6 * * *")
        assignment.refresh_from_db()
        assert assignment.next_backup_at == MONDAY + 12 * HOUR
        assert emitter.emit_triggers(MONDAY + 13 * HOUR) == 1

    def test_what_is_ready_waits_for_a_new_window_and_goes_on_when_it_is_lifted(self) -> None:
        policy = make_policy()
        assignment = make_assignment(policy)
        planning.emit_due(NINE)
        edited(policy, NINE + HOUR, window=NIGHTS)
        assert claim_ready(1, "availability", NINE + HOUR) == []
        tick(NINE + HOUR)
        record = record_of(assignment)
        assert (record.status, record.run_after) == (Status.WAITING, MONDAY + 22 * HOUR)
        edited(policy, NINE + 2 * HOUR, window=[])
        tick(NINE + 2 * HOUR)
        record = record_of(assignment)
        assert (record.status, record.closes_at) == (Status.READY, None)

    def test_a_record_that_waits_for_a_recheck_is_kept_to_the_new_window(self) -> None:
        policy = make_policy()
        assignment = make_assignment(policy)
        planning.emit_due(NINE)
        settle(claim("availability", NINE), Unavailable("silent", 900), NINE)
        edited(policy, NINE + timedelta(minutes=1), window=NIGHTS)
        assert record_of(assignment).waiting_for == WaitingFor.RECHECK
        tick(NINE + HOUR)
        assert record_of(assignment).run_after == MONDAY + 22 * HOUR

    def test_a_disabled_policy_leaves_the_backlog_and_comes_back_in_the_same_period(self) -> None:
        policy = make_policy(retry_policy=make_retry_policy(algorithm="progressive"))
        assignment, asked = make_assignment(policy), make_assignment(policy)
        planning.back_up_now([asked], NINE)
        settle(claim("availability", NINE), Failed("refused"), NINE)
        planning.emit_due(NINE)
        for enabled, left in ((False, 0), (True, 2)):
            edited(policy, NINE + HOUR, enabled=enabled)
            tick(NINE + HOUR)
            assert unfinished() == left
        assert record_of(assignment).trigger_at == NINE

    def test_what_is_not_due_any_more_is_taken_off_and_may_be_emitted_again(self) -> None:
        policy = make_policy()
        assignment = backed_up(policy, NINE - DAY)
        planning.emit_due(NINE)
        edited(policy, NINE, cron="0 9 1 * *")
        assert not BacklogRecord.objects.unfinished().exists()
        edited(policy, NINE, cron="0 9 * * *")
        tick(NINE)
        assert record_of(assignment).status == Status.READY

    def test_another_zone_moves_the_day_buckets_of_what_is_on_the_backlog(self) -> None:
        policy = make_policy(cron="0 3 * * *")
        late_on_saturday = MONDAY - timedelta(minutes=24 * 60 + 30)
        assignment, tried = backed_up(policy, late_on_saturday), backed_up(policy, late_on_saturday)
        planning.emit_due(MONDAY)
        sunday, tuesday = (MONDAY - DAY).date(), (MONDAY + DAY).date()
        BacklogRecord.objects.filter(pk=record_of(tried).pk).update(rank_day=tuesday, tried_at=MONDAY)
        assert record_of(assignment).due_day == sunday
        edited(policy, MONDAY, zone="Asia/Tokyo")
        assert [record_of(one).due_day for one in (assignment, tried)] == [MONDAY.date()] * 2
        assert [record_of(one).rank_day for one in (assignment, tried)] == [MONDAY.date(), tuesday]


@pytest.mark.django_db(transaction=True)
def test_five_emitters_at_once_emit_each_assignment_once() -> None:
    policies = [make_policy() for _ in range(3)]
    for number in range(60):
        make_assignment(policies[number % 3])
    emissions = [lambda: planning.emit_due(NINE)] * 3 + [lambda: emitter.emit_triggers(NINE)] * 2
    assert sum(at_once(*emissions)) == 60 == unfinished()


class TestAClockThatWasWrong:
    """It ran a year ahead for a while and was set back."""

    YEAR = timedelta(days=365)

    def test_a_last_backup_in_the_future_is_no_reason_to_wait_but_seconds_of_correction_are_no_such_thing(self) -> None:
        assignment = backed_up(make_policy(), NINE + self.YEAR)
        backed_up(make_policy(), NINE + timedelta(seconds=5))
        assert planning.emit_due(NINE) == 1
        record = record_of(assignment)
        assert (record.status, record.due_day) == (Status.READY, MONDAY.date())

    @pytest.mark.django_db(transaction=True)
    def test_looking_for_watermarks_in_the_future_locks_none_that_is_right(self) -> None:
        schedule = make_policy(next_trigger_at=NINE + DAY).schedule
        with another_connection() as other, transaction.atomic():
            assert emitter.correct_watermarks(NINE + HOUR) == 0
            other.execute("SELECT FROM schedules_schedule WHERE origin_id = %s FOR UPDATE NOWAIT", [schedule.pk])

    def test_a_watermark_in_the_future_comes_back_to_the_next_trigger(self) -> None:
        far, near = make_policy(next_trigger_at=NINE + self.YEAR), make_policy(next_trigger_at=NINE + DAY)
        for number, wrong in enumerate(({"cron": "nonsense"}, {"zone": "Nowhere"})):
            Schedule.objects.create(
                name=f"wrong {number}", kind="test", event_count=1, next_trigger_at=NINE + DAY,
                **({"cron": "0 9 * * *"} | wrong),
            )  # fmt: skip
        make_assignment(far)
        assert emitter.emit_triggers(NINE + HOUR) == 0
        assert emitter.correct_watermarks(NINE + HOUR) == 1
        assert set(Schedule.objects.values_list("next_trigger_at", flat=True)) == {NINE + DAY}
        assert emitter.emit_triggers(near.schedule.next_trigger_at) == 1


class TestCatchingUpInTheMinutesRound:
    def test_goes_on_at_the_policy_that_the_last_round_had_no_time_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(emission, "AT_ONCE", 1)
        monkeypatch.setattr(emission, "_first", 0)
        for _ in range(3):
            make_assignment()
        never_emitted = make_assignment()  # its record of this period failed: it stays due, and its turn comes again
        planning.emit_due(NINE, [never_emitted.pk])
        BacklogRecord.objects.update(status=Status.FAILED, finished_at=NINE)
        assert sorted(planning.catch_up(NINE, seconds=0) for _ in range(4)) == [0, 1, 1, 1]

    def test_a_policy_that_cannot_be_read_holds_up_no_other(self) -> None:
        bad, good = make_assignment(), make_assignment()
        Schedule.objects.filter(pk=bad.policy.schedule_id).update(cron="nonsense")
        assert planning.catch_up(NINE) == 1
        assert record_of(good).status == Status.READY

    def test_reads_no_policy_of_which_nothing_is_due(self, django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
        for _ in range(3):
            make_assignment()
        assert planning.catch_up(NINE) == 3
        with django_assert_num_queries(0):  # but for the one that is not Django's
            assert planning.catch_up(NINE) == 0
