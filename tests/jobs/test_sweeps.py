"""Sweeps: what they take, when they are due, when they are full, and those by hand."""

import logging
from datetime import datetime, timedelta

import pytest

from jobs.models import BacklogRecord, Decision, Sweep
from jobs.retries.sweeps import LARGEST, Swept, process_backlog, run_overdue, sweep_by_hand
from jobs.retries.tiers import TIERS
from jobs.states import Status, WaitingFor
from tests.jobs.sweeping import DAY, HOUR, MINUTE, NOW, SLOT, make_waiting, ready, statuses


@pytest.mark.django_db
class TestWhatASweepTakes:
    def test_what_is_young_enough_whatever_its_failures(self):
        old, young = make_waiting(8 * DAY), make_waiting(6 * DAY, failures=4000)
        assert process_backlog(7, now=NOW) == Swept(7, ready=1)
        assert ready() == {young.pk}
        old.refresh_from_db()
        assert (old.status, old.waiting_for) == (Status.WAITING, WaitingFor.SWEEP)

    def test_what_it_takes_is_as_a_tick_would_leave_it(self):
        record = make_waiting(HOUR, exclusive_key="source:1")
        process_backlog(1, now=NOW)
        record.refresh_from_db()
        assert (record.status, record.waiting_for, record.exclusive_key) == (Status.READY, None, None)
        assert (record.run_after, record.failures) == (NOW, 7)

    def test_nothing_that_waits_for_anything_else(self):
        others = [what for what in WaitingFor if what not in (WaitingFor.SWEEP, WaitingFor.BREAKER)]
        records = [make_waiting(HOUR, waiting_for=what) for what in others]
        assert process_backlog(1, now=NOW).ready == 0
        assert set(statuses(*records)) == {Status.WAITING}

    def test_ages_are_those_at_the_beginning_of_its_slot_however_late_it_is(self):
        at_the_limit, beyond = make_waiting(7 * DAY), make_waiting(7 * DAY + MINUTE)
        assert process_backlog(7, now=SLOT + 50 * MINUTE).ready == 1
        assert ready() == {at_the_limit.pk}
        assert statuses(beyond) == [Status.WAITING]

    def test_the_newest_first_when_it_may_not_take_all(self):
        ages = [3 * HOUR, HOUR, 4 * HOUR, 2 * HOUR]
        records = {age: make_waiting(age) for age in ages}
        assert process_backlog(1, max_records=2, now=NOW) == Swept(1, ready=2, left_some=True)
        assert ready() == {records[HOUR].pk, records[2 * HOUR].pk}

    def test_taking_all_with_its_greatest_number_leaves_none(self):
        make_waiting(HOUR)
        assert process_backlog(1, max_records=1, now=NOW) == Swept(1, ready=1)

    @pytest.mark.parametrize(("days", "most"), [(0, 1), (-1, 1), (3, 1), (361, 1), (7, 0), (7, -1), (7, LARGEST + 1)])
    def test_an_age_of_no_tier_or_a_number_out_of_bounds_is_refused(self, days, most):
        with pytest.raises(ValueError, match=r"tier|records"):
            process_backlog(days, max_records=most, now=NOW)

    def test_workers_of_the_queue_are_told(self, django_capture_on_commit_callbacks, monkeypatch):
        told: list[str] = []
        monkeypatch.setattr("jobs.wakeups.heard_here", told.append)
        make_waiting(HOUR, queue="backups")
        make_waiting(HOUR, queue="backups")
        with django_capture_on_commit_callbacks(execute=True):
            process_backlog(1, now=NOW)
        assert told == ["backups"]


@pytest.mark.django_db
class TestOnceInASlot:
    def test_a_second_sweep_in_a_slot_does_nothing(self):
        process_backlog(7, now=NOW)
        make_waiting(HOUR)
        assert process_backlog(7, now=SLOT + 59 * MINUTE) == Swept(7, done_before=True)
        assert process_backlog(7, now=SLOT + 60 * MINUTE) == Swept(7, ready=1)

    def test_missed_sweeps_are_not_replayed(self):
        process_backlog(1, now=NOW - 3 * DAY)
        make_waiting(HOUR)
        assert process_backlog(1, now=NOW).ready == 1
        BacklogRecord.objects.update(status=Status.WAITING, waiting_for=WaitingFor.SWEEP)
        assert process_backlog(1, now=NOW + timedelta(seconds=1)) == Swept(1, done_before=True)

    def test_a_sweep_dated_in_the_future_by_a_wrong_clock_holds_up_none(self):
        process_backlog(1, now=NOW + 400 * DAY)
        make_waiting(HOUR)
        assert process_backlog(1, now=NOW).ready == 1
        assert Sweep.objects.get().swept_at == NOW

    def test_each_sweep_is_written_down_once_a_tier(self):
        process_backlog(1, now=NOW - HOUR)
        make_waiting(HOUR)
        process_backlog(1, now=NOW)
        assert list(Sweep.objects.values_list("max_age_days", "swept_at", "swept", "left_some")) == [(1, NOW, 1, False)]


@pytest.mark.django_db
class TestSweepsThatCoincide:
    def fails(self, record: BacklogRecord, at: datetime) -> None:
        BacklogRecord.objects.filter(pk=record.pk).update(
            status=Status.WAITING, waiting_for=WaitingFor.SWEEP, last_failure_at=at
        )

    def test_make_one_attempt_also_when_it_ends_between_them(self):
        record = make_waiting(HOUR)
        assert process_backlog(1, now=NOW).ready == 1
        self.fails(record, NOW + timedelta(seconds=1))
        assert [process_backlog(days, now=NOW + timedelta(seconds=2)).ready for days in (7, 14, 30, 180, 360)] == [
            0
        ] * 5

    def test_make_one_attempt_also_when_one_of_them_is_late(self):
        record = make_waiting(HOUR)
        assert process_backlog(1, now=NOW).ready == 1
        self.fails(record, NOW + timedelta(seconds=1))
        assert process_backlog(7, now=SLOT + 7 * MINUTE).ready == 0
        assert process_backlog(1, now=SLOT + 7 * MINUTE).ready == 1

    def test_an_attempt_under_way_is_not_made_twice(self):
        make_waiting(HOUR)
        assert [process_backlog(tier.max_age_days, now=NOW).ready for tier in TIERS] == [1, 0, 0, 0, 0, 0]

    def test_a_failure_from_the_future_hides_no_record(self):
        make_waiting(HOUR, last_failure_at=NOW + 3 * DAY)
        assert process_backlog(1, now=NOW).ready == 1

    def test_a_failure_while_the_sweep_began_counts_for_its_slot(self):
        make_waiting(HOUR, last_failure_at=NOW + timedelta(milliseconds=5))
        assert process_backlog(1, now=NOW).ready == 0

    def test_a_record_without_a_known_failure_is_swept(self):
        make_waiting(HOUR, last_failure_at=None)
        assert process_backlog(1, now=NOW).ready == 1


@pytest.mark.django_db
class TestAFullSweep:
    @pytest.fixture
    def warnings(self, caplog):
        caplog.set_level(logging.WARNING, "jobs.retries.sweeps")
        return lambda: [record.getMessage() for record in caplog.records if record.name == "jobs.retries.sweeps"]

    def sweep(self, now: datetime) -> Swept:
        BacklogRecord.objects.update(status=Status.WAITING, waiting_for=WaitingFor.SWEEP)
        return process_backlog(1, max_records=1, now=now)

    def test_is_warned_of_once_and_not_in_each_slot(self, warnings):
        make_waiting(HOUR)
        make_waiting(2 * HOUR)
        for minutes in range(0, 60, 5):
            assert self.sweep(NOW + minutes * MINUTE).left_some
        [said] = warnings()
        assert "up to 1 days old" in said
        assert "SWEEP_MAX_RECORDS" in said
        assert Decision.objects.filter(what="sweep left some").count() == 1
        assert Sweep.objects.get().left_some

    def test_is_warned_of_again_the_next_day(self, warnings):
        make_waiting(HOUR, inserted_at=NOW + HOUR)
        make_waiting(HOUR, inserted_at=NOW + HOUR)
        self.sweep(NOW)
        self.sweep(NOW + DAY)
        assert len(warnings()) == 2

    def test_that_is_over_says_nothing_and_begins_anew(self, warnings):
        make_waiting(HOUR)
        other = make_waiting(2 * HOUR)
        self.sweep(NOW)
        other.delete()
        assert not self.sweep(NOW + 5 * MINUTE).left_some
        assert not Sweep.objects.get().left_some
        make_waiting(2 * HOUR)
        self.sweep(NOW + 10 * MINUTE)
        assert len(warnings()) == 2


@pytest.mark.django_db
class TestOverdueSweeps:
    def test_are_run_a_minute_after_their_slot_began(self):
        for tier in TIERS:
            process_backlog(tier.max_age_days, now=NOW - HOUR)
        make_waiting(HOUR)
        assert run_overdue(SLOT + timedelta(seconds=59)) == 0
        assert run_overdue(SLOT + timedelta(seconds=60)) == 1
        assert dict(Sweep.objects.values_list("max_age_days", "swept_at"))[7] == SLOT + MINUTE

    def test_are_left_alone_when_the_qcluster_was_there(self):
        process_backlog(1, now=NOW)
        assert run_overdue(SLOT + 2 * MINUTE) == 0
        assert Sweep.objects.get(max_age_days=1).swept_at == NOW

    def test_cover_all_tiers_after_a_long_night(self):
        records = [make_waiting(timedelta(days=days)) for days in (0.5, 5, 12, 29, 179, 359)]
        assert run_overdue(NOW + MINUTE) == 6
        assert ready() == {record.pk for record in records}
        assert run_overdue(NOW + 2 * MINUTE) == 0


@pytest.mark.django_db
class TestByHand:
    def test_takes_what_has_just_failed_and_leaves_the_sweep_of_the_clock_as_it_was(self):
        process_backlog(1, now=NOW - 5 * MINUTE)
        record = make_waiting(HOUR, last_failure_at=NOW)
        assert sweep_by_hand(1, now=NOW) == Swept(1, ready=1)
        assert statuses(record) == [Status.READY]
        assert Decision.objects.get().what == "swept by hand"
        assert Sweep.objects.get().swept_at == NOW - 5 * MINUTE
        assert not process_backlog(1, now=NOW).done_before

    def test_takes_any_age_exactly(self):
        old, young = make_waiting(3 * DAY), make_waiting(2 * DAY)
        assert sweep_by_hand(3, now=NOW).ready == 1
        assert statuses(old, young) == [Status.WAITING, Status.READY]
        assert not Sweep.objects.exists()

    def test_of_few_does_not_stand_for_the_sweep_of_its_slot(self):
        make_waiting(HOUR)
        make_waiting(2 * HOUR)
        assert sweep_by_hand(7, max_records=1, now=NOW).left_some
        assert process_backlog(7, now=NOW).ready == 1

    def test_a_dry_run_counts_and_changes_nothing(self):
        record = make_waiting(HOUR)
        assert sweep_by_hand(1, dry_run=True, now=NOW).ready == 1
        assert statuses(record) == [Status.WAITING]
        assert not Decision.objects.exists()

    @pytest.mark.parametrize(("days", "most"), [(0, 1), (361, 1), (1, 0), (1, LARGEST + 1)])
    def test_refuses_what_no_sweep_covers(self, days, most):
        with pytest.raises(ValueError, match="sweep"):
            sweep_by_hand(days, max_records=most, now=NOW)
