"""Sweeps beside others: two at the same moment, one that is killed, records that are held; and what they cost."""

from datetime import timedelta

import pytest
from django.db import connection

from jobs import sweeps
from jobs.models import BacklogRecord, Sweep
from jobs.retries.tiers import TIERS
from jobs.states import Status, WaitingFor
from jobs.sweeps import ANOTHER, SWEEP, Swept, run_overdue, sweep_tier, wanted
from tests.factories import NOON, statuses
from tests.jobs.claim_plans import plans_of_the_prepared
from tests.jobs.sweeping import DAY, HOUR, MINUTE, NOW, build_waiting, make_waiting
from tests.threads import another_connection, at_once, beside, impatience
from tests.waiting import PATIENCE


@pytest.mark.django_db(transaction=True)
class TestAtTheSameMoment:
    def test_a_first_sweep_by_two_takes_every_record_once_and_fails_for_neither(self):
        BacklogRecord.objects.bulk_create([build_waiting(number * timedelta(seconds=30)) for number in range(100)])
        swept = at_once(*[lambda: sweep_tier(1, now=NOW)] * 4)
        assert sorted(one.ready for one in swept) == [0, 0, 0, 100]
        assert sum(one.done_before for one in swept) == 3
        assert Sweep.objects.get().swept == 100

    def test_one_killed_in_the_middle_has_not_been_and_is_done_a_minute_later(self, monkeypatch):
        make_waiting(HOUR)

        def die(*_: object) -> None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

        with monkeypatch.context() as patched:
            patched.setattr(sweeps, "_write_down", die)
            with pytest.raises(Exception, match="terminat"):
                beside(lambda: sweep_tier(1, now=NOW)).result(PATIENCE)
        assert not Sweep.objects.exists()
        assert run_overdue(NOW + MINUTE) == 1

    def test_neither_another_sweep_nor_a_held_record_is_waited_for_and_that_is_swept_a_minute_later(self):
        held, free = make_waiting(179 * DAY), make_waiting(170 * DAY)
        with another_connection() as other, impatience():
            other.execute(sweeps.ALONE, {"max_age_days": 180})
            assert sweep_tier(180, now=NOW) == Swept(180, done_before=True)
            other.rollback()
            other.execute("SELECT FROM jobs_backlogrecord WHERE id = %s FOR UPDATE", [held.pk])
            assert sweep_tier(180, now=NOW) == Swept(180, ready=1, skipped=True)
            assert not Sweep.objects.exists()
            assert run_overdue(NOW + MINUTE) == 0
        assert statuses(held, free) == [Status.WAITING, Status.READY]
        assert run_overdue(NOW + 2 * MINUTE) == 1
        assert statuses(held) == [Status.READY]
        assert run_overdue(NOW + 3 * MINUTE) == 0


@pytest.mark.django_db
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_the_plan_is_that_of_the_index_and_sorts_nothing_whether_something_waits_for_a_sweep_or_not(mode):
    """Beside 20,000 records that wait for something else."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobs_backlogrecord (kind, queue, subject, payload, status, waiting_for, inserted_at,"
            " run_after, priority, failures, last_error, attempt, lane) "
            "SELECT 'test', 'default', 'other ' || n, '{}', 0, 3, %s, %s, 0, 0, '', 0, 0 "
            "FROM generate_series(1, 20000) AS n",
            [NOON, NOON + DAY],
        )
    BacklogRecord.objects.bulk_create([build_waiting(number * timedelta(seconds=30)) for number in range(500)])
    for _ in range(2):
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE jobs_backlogrecord")
        for sql in (SWEEP, ANOTHER):
            plan = plans_of_the_prepared(sql, {**wanted(TIERS[0], NOW), "limit": 10_000}, mode)
            assert "backlog_swept" in plan, plan
            assert "Sort" not in plan, plan
            assert "Seq Scan" not in plan, plan
        BacklogRecord.objects.filter(waiting_for=WaitingFor.SWEEP).delete()
