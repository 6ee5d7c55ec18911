"""Sweeps: what they take, when they are due, when they are full, and those by hand."""

from datetime import datetime, timedelta

import pytest

from jobs.models import BacklogRecord, Decision, Sweep
from jobs.retries.tiers import TIERS
from jobs.states import Status, WaitingFor
from jobs.sweeps import LARGEST, Swept, run_overdue, sweep_by_hand, sweep_tier
from tests.factories import statuses
from tests.jobs.sweeping import DAY, HOUR, MINUTE, NOW, SLOT, make_waiting, ready


@pytest.mark.django_db
class TestWhatASweepTakes:
    def test_what_waits_for_it_and_was_young_enough_when_its_slot_began(self, django_capture_on_commit_callbacks):
        old, young = make_waiting(7 * DAY + MINUTE), make_waiting(7 * DAY, failures=4000, exclusive_key="source:1")
        others = [what for what in WaitingFor if what not in (WaitingFor.SWEEP, WaitingFor.BREAKER)]
        records = [old, *(make_waiting(HOUR, waiting_for=what) for what in others)]
        late = SLOT + 50 * MINUTE
        with django_capture_on_commit_callbacks() as callbacks:
            assert sweep_tier(7, now=late) == Swept(7, ready=1)
        assert len(callbacks) == 1  # wakes the workers of the queue
        assert set(statuses(*records)) == {Status.WAITING}
        young.refresh_from_db()
        assert (young.status, young.waiting_for, young.exclusive_key) == (Status.READY, None, None)
        assert (young.run_after, young.failures) == (late, 4000)

    def test_the_newest_first_when_it_may_not_take_all(self):
        ages = [3 * HOUR, HOUR, 4 * HOUR, 2 * HOUR]
        records = {age: make_waiting(age) for age in ages}
        assert sweep_tier(1, max_records=2, now=NOW) == Swept(1, ready=2, left_some=True)
        assert ready() == {records[HOUR].pk, records[2 * HOUR].pk}

    @pytest.mark.parametrize(("days", "most"), [(0, 1), (-1, 1), (3, 1), (361, 1), (7, 0), (7, -1), (7, LARGEST + 1)])
    def test_an_age_of_no_tier_or_a_number_out_of_bounds_is_refused(self, days, most):
        with pytest.raises(ValueError, match=r"tier|records"):
            sweep_tier(days, max_records=most, now=NOW)
        if days != 3:  # by hand any age will do
            with pytest.raises(ValueError, match="sweep"):
                sweep_by_hand(days, max_records=most, now=NOW)


@pytest.mark.django_db
class TestOnceInASlot:
    def test_a_second_sweep_in_a_slot_does_nothing(self):
        sweep_tier(7, now=NOW)
        make_waiting(HOUR)
        assert sweep_tier(7, now=SLOT + 59 * MINUTE) == Swept(7, done_before=True)
        assert sweep_tier(7, now=SLOT + 60 * MINUTE) == Swept(7, ready=1)

    def test_a_sweep_dated_in_the_future_by_a_wrong_clock_holds_up_none(self):
        sweep_tier(1, now=NOW + 400 * DAY)
        make_waiting(HOUR)
        assert sweep_tier(1, now=NOW).ready == 1
        assert Sweep.objects.get().swept_at == NOW


@pytest.mark.django_db
class TestSweepsThatCoincide:
    def test_make_one_attempt_also_when_it_ends_between_them_or_one_of_them_is_late(self):
        record = make_waiting(HOUR)
        assert [sweep_tier(days, now=NOW).ready for days in (1, 7)] == [1, 0]
        BacklogRecord.objects.filter(pk=record.pk).update(
            status=Status.WAITING, waiting_for=WaitingFor.SWEEP, last_failure_at=NOW + timedelta(seconds=1)
        )
        assert [sweep_tier(days, now=NOW + timedelta(seconds=2)).ready for days in (14, 30, 180)] == [0] * 3
        assert sweep_tier(360, now=SLOT + 7 * MINUTE).ready == 0
        assert sweep_tier(1, now=SLOT + 7 * MINUTE).ready == 1

    @pytest.mark.parametrize(
        ("failed_at", "taken"), [(NOW + 3 * DAY, 1), (NOW + timedelta(milliseconds=5), 0), (None, 1)]
    )
    def test_a_failure_counts_for_the_slot_in_which_it_happened(self, failed_at, taken):
        make_waiting(HOUR, last_failure_at=failed_at)
        assert sweep_tier(1, now=NOW).ready == taken


@pytest.mark.django_db
def test_a_full_sweep_is_warned_of_once_a_day_and_anew_when_it_was_over(caplog):
    make_waiting(HOUR, inserted_at=NOW + HOUR)
    other = make_waiting(HOUR, inserted_at=NOW + 2 * HOUR)

    def warnings(now: datetime) -> list[str]:
        caplog.clear()
        BacklogRecord.objects.update(status=Status.WAITING, waiting_for=WaitingFor.SWEEP)
        left_some = sweep_tier(1, max_records=1, now=now).left_some
        assert Sweep.objects.get().left_some == left_some == BacklogRecord.objects.filter(pk=other.pk).exists()
        return [record.getMessage() for record in caplog.records if record.name == "jobs.sweeps"]

    [warning] = warnings(NOW)
    assert "up to 1 days old" in warning
    assert "SWEEP_MAX_RECORDS" in warning
    assert [len(warnings(NOW + minutes * MINUTE)) for minutes in (5, 10, 55)] == [0, 0, 0]
    assert Decision.objects.filter(what="sweep left some").count() == 1
    assert len(warnings(NOW + DAY)) == 1
    other.delete()
    assert not warnings(NOW + DAY + 5 * MINUTE)
    other = make_waiting(HOUR, inserted_at=NOW + DAY)
    assert len(warnings(NOW + DAY + 10 * MINUTE)) == 1


@pytest.mark.django_db
class TestOverdueSweeps:
    def test_are_run_a_minute_after_their_slot_began(self):
        for tier in TIERS:
            sweep_tier(tier.max_age_days, now=NOW - HOUR)
        make_waiting(HOUR)
        assert run_overdue(SLOT + timedelta(seconds=59)) == 0
        assert run_overdue(SLOT + timedelta(seconds=60)) == 1
        assert dict(Sweep.objects.values_list("max_age_days", "swept_at"))[7] == SLOT + MINUTE

    def test_cover_all_tiers_after_a_long_night(self):
        records = [make_waiting(timedelta(days=days)) for days in (0.5, 5, 12, 29, 179, 359)]
        assert run_overdue(NOW + MINUTE) == 6
        assert ready() == {record.pk for record in records}
        assert run_overdue(NOW + 2 * MINUTE) == 0


@pytest.mark.django_db
class TestByHand:
    def test_takes_what_has_just_failed_and_leaves_the_sweep_of_the_clock_as_it_was(self):
        sweep_tier(1, now=NOW - 5 * MINUTE)
        record = make_waiting(HOUR, last_failure_at=NOW)
        assert sweep_by_hand(1, now=NOW) == Swept(1, ready=1)
        assert statuses(record) == [Status.READY]
        assert Decision.objects.get().what == "swept by hand"
        assert Sweep.objects.get().swept_at == NOW - 5 * MINUTE
        assert not sweep_tier(1, now=NOW).done_before

    def test_takes_any_age_exactly_and_a_dry_run_counts_and_changes_nothing(self):
        old, young = make_waiting(3 * DAY), make_waiting(2 * DAY)
        assert sweep_by_hand(3, dry_run=True, now=NOW).ready == 1
        assert statuses(old, young) == [Status.WAITING, Status.WAITING]
        assert not Decision.objects.exists()
        assert sweep_by_hand(3, now=NOW).ready == 1
        assert statuses(old, young) == [Status.WAITING, Status.READY]
        assert not Sweep.objects.exists()
