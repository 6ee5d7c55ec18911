"""Sweeps beside others: two at the same moment, one that is killed, records that are held; and what they cost."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from jobs.models import BacklogRecord, Sweep
from jobs.retries import sweeps
from jobs.retries.sweeps import ANOTHER, SWEEP, Swept, process_backlog, run_overdue, wanted
from jobs.retries.tiers import TIERS
from jobs.states import Status, WaitingFor
from tests.factories import NOON
from tests.jobs.sweeping import DAY, HOUR, MINUTE, NOW, SLOT, build_waiting, make_waiting, statuses
from tests.threads import another_connection, at_once, beside, impatience
from tests.waiting import PATIENCE


@pytest.mark.django_db(transaction=True)
class TestAtTheSameMoment:
    def test_a_first_sweep_by_two_takes_every_record_once_and_fails_for_neither(self):
        BacklogRecord.objects.bulk_create([build_waiting(number * timedelta(seconds=30)) for number in range(400)])
        swept = at_once(*[lambda: process_backlog(1, now=NOW)] * 4)
        assert sorted(one.ready for one in swept) == [0, 0, 0, 400]
        assert sum(one.done_before for one in swept) == 3
        assert Sweep.objects.get().swept == 400

    def test_one_that_is_under_way_elsewhere_is_not_waited_for(self):
        make_waiting(HOUR)
        with another_connection() as other, impatience():
            other.execute(sweeps.ALONE, {"max_age_days": 1})
            assert process_backlog(1, now=NOW) == Swept(1, done_before=True)
            assert process_backlog(7, now=NOW).ready == 1

    def test_one_killed_in_the_middle_has_not_been_and_is_done_a_minute_later(self, monkeypatch):
        make_waiting(HOUR)

        def die(*_: object) -> None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

        with monkeypatch.context() as patched:
            patched.setattr(sweeps, "_write_down", die)
            with pytest.raises(Exception, match="terminat"):
                beside(lambda: process_backlog(1, now=NOW)).result(PATIENCE)
        assert not Sweep.objects.exists()
        assert run_overdue(NOW + MINUTE) == 1

    def test_what_somebody_holds_is_not_waited_for_and_swept_a_minute_later(self):
        held, free = make_waiting(179 * DAY), make_waiting(170 * DAY)
        with another_connection() as other, impatience():
            other.execute("SELECT FROM jobs_backlogrecord WHERE id = %s FOR UPDATE", [held.pk])
            assert process_backlog(180, now=NOW) == Swept(180, ready=1, skipped=True)
            assert not Sweep.objects.exists()
            assert run_overdue(NOW + MINUTE) == 0
        assert statuses(held, free) == [Status.WAITING, Status.READY]
        assert run_overdue(NOW + 2 * MINUTE) == 1
        assert statuses(held) == [Status.READY]
        assert run_overdue(NOW + 3 * MINUTE) == 0


def plan_of(sql: str, **values: object) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}", {**wanted(TIERS[0], NOW), "limit": 10_000, **values})
        return "\n".join(row[0] for row in cursor.fetchall())


@pytest.mark.django_db
class TestThePlan:
    """Beside 50,000 records that wait for something else."""

    @pytest.fixture(autouse=True)
    def many(self):
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO jobs_backlogrecord (kind, queue, subject, payload, status, waiting_for, inserted_at,"
                " run_after, priority, failures, last_error, attempt, lane) "
                "SELECT 'test', 'default', 'other ' || n, '{}', 0, 3, %s, %s, 0, 0, '', 0, 0 "
                "FROM generate_series(1, 50000) AS n",
                [NOON, NOON + DAY],
            )
        BacklogRecord.objects.bulk_create([build_waiting(number * timedelta(seconds=30)) for number in range(500)])
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE jobs_backlogrecord")

    @pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
    @pytest.mark.parametrize("sql", [SWEEP, ANOTHER], ids=["sweep", "another"])
    def test_is_that_of_the_index_and_sorts_nothing(self, sql, mode):
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL plan_cache_mode = {mode}")
            plan = _generic_plan(cursor, sql) if mode == "force_generic_plan" else plan_of(sql)
        assert "backlog_swept" in plan
        assert "Sort" not in plan
        assert "Seq Scan" not in plan

    def test_stays_that_when_nothing_waits_for_a_sweep(self):
        BacklogRecord.objects.filter(waiting_for=WaitingFor.SWEEP).delete()
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE jobs_backlogrecord")
        assert "backlog_swept" in plan_of(SWEEP)
        assert "backlog_swept" in plan_of(ANOTHER)


def _generic_plan(cursor: Any, sql: str) -> str:
    """As workers have it: prepared, one plan for all values."""
    names = ["now", "since", "tried_since", "limit"]
    for number, name in enumerate(names, 1):
        sql = sql.replace(f"%({name})s", f"${number}")
    cursor.execute(f"PREPARE swept (timestamptz, timestamptz, timestamptz, int) AS {sql}")
    cursor.execute(f"EXPLAIN EXECUTE swept ('{NOW}', '{SLOT - DAY}', '{SLOT}', 100)")
    plan = "\n".join(row[0] for row in cursor.fetchall())
    cursor.execute("DEALLOCATE swept")
    return plan
