"""The rows that a claim reads with many lanes, each with a throttle of its own and one that all share."""

from collections.abc import Iterator

import pytest
from django.db import connection, transaction

from jobs import prepared_statements, throttles
from jobs.models import BacklogRecord
from jobs.outcomes import ClaimedRecord
from jobs.states import Status
from jobs.worker.claimer import shortage
from tests.factories import NOON, build_record, claim_ready, make_lane, make_record, make_throttle, make_worker
from tests.threads import a_lock_is_waited_for, another_connection, beside, impatience
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db

LANES, RUNNING = 30, 300
FETCHED = "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = %s"


@pytest.fixture
def lanes() -> Iterator[list[int]]:
    """Each has running and ready records, and room."""
    shared, worker = make_throttle(RUNNING + 5), make_worker()
    lanes = [make_lane(shared, make_throttle(RUNNING // LANES + 1)) for _ in range(LANES)]
    running = [build_record(Status.RUNNING, worker=worker, lane=lanes[number % LANES]) for number in range(RUNNING)]
    BacklogRecord.objects.bulk_create([*running, *(build_record(lane=lane) for lane in lanes * 3)])
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")  # of a small table that autovacuum has looked at, all is read
        cursor.execute("SET plan_cache_mode = force_generic_plan")
        yield lanes
        cursor.execute("RESET plan_cache_mode; RESET enable_seqscan")


def rows_read(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(FETCHED, [table])
        return cursor.fetchone()[0]


@pytest.mark.django_db(transaction=True)
def test_a_claim_names_each_lane_once_however_many_have_only_locked_records(monkeypatch):
    for _ in range(8):
        make_record(lane=make_lane(make_throttle(1)))
    sent: list[list[int]] = []

    def execute(sql, values):
        sent.append(values.get("tried", []))
        return prepared_statements.execute(sql, values)

    monkeypatch.setattr(throttles, "execute", execute)
    with another_connection() as other, impatience():
        other.execute("SELECT FROM jobs_backlogrecord FOR UPDATE")
        assert claim_ready(limit=1) == []
    assert max(map(len, sent)) == 8
    assert all(len(tried) == len(set(tried)) for tried in sent)


@pytest.mark.django_db(transaction=True)
def test_a_claim_reads_what_runs_once_before_and_once_under_the_locks_and_the_look_ahead_twice(lanes):
    with connection.cursor() as cursor:  # autovacuum may have looked at what an earlier test had there
        cursor.execute("ANALYZE jobs_backlogrecord, jobs_throttle, jobs_lane")
    with transaction.atomic():  # rows are counted in one
        before = rows_read("jobs_backlogrecord"), rows_read("jobs_throttle")
        assert len(claim_ready(limit=2)) == 2
        records = rows_read("jobs_backlogrecord") - before[0]
        assert records <= 5 * RUNNING  # counted by throttle and lane it is 60 times; plans differ by some hundred rows
        assert rows_read("jobs_throttle") - before[1] <= 4 * (LANES + 1)
        BacklogRecord.objects.filter(status=Status.READY).update(queue="backups")
        before = rows_read("jobs_backlogrecord")
        shortage("backups", "availability", now=NOON)
        assert rows_read("jobs_backlogrecord") - before <= 5 * RUNNING  # once of its queue, once of all lanes


@pytest.mark.django_db(transaction=True)
def test_what_is_claimed_is_not_lost_when_the_throttle_of_another_lane_is_not_had_in_time():
    closing, held = make_throttle(1), make_throttle(1)
    make_record(lane=make_lane(closing), priority=6)
    second = make_record(lane=make_lane(make_throttle(1)), priority=5)
    make_record(lane=make_lane(held))

    def hurried() -> list[ClaimedRecord]:
        with impatience(5):
            return claim_ready(limit=2)

    with another_connection() as closer, another_connection() as holder:
        closer.execute("UPDATE jobs_throttle SET max_in_flight = 0 WHERE id = %s", [closing.pk])
        holder.execute("SELECT FROM jobs_throttle WHERE id = %s FOR UPDATE", [held.pk])
        claimed = beside(hurried)
        eventually(a_lock_is_waited_for)
        closer.commit()
        assert [record.id for record in claimed.result(PATIENCE)] == [second.pk]


@pytest.mark.django_db(transaction=True)
def test_a_claim_waits_for_no_throttle_but_those_of_the_lanes_that_it_claims_from():
    busy = make_throttle(9)
    first = make_record(lane=make_lane(make_throttle(1)), priority=5)
    make_record(lane=make_lane(busy))
    with another_connection() as holder, impatience():
        holder.execute("SELECT FROM jobs_throttle WHERE id = %s FOR UPDATE", [busy.pk])
        assert [record.id for record in claim_ready(limit=1)] == [first.pk]


@pytest.mark.django_db(transaction=True)
def test_each_lane_is_tried_once_where_what_is_claimed_takes_no_room_or_is_locked():
    """Two of them were tried in turn until nothing was left, or for ever."""
    shared, other = make_throttle(1), make_throttle(9)
    lanes = [make_lane(shared), make_lane(shared, other)]
    make_record(Status.RUNNING, lane=lanes[0], queue="backups")  # room for one question is left
    rows = [make_record(lane=lane, queue="availability") for _ in range(3) for lane in lanes]
    with another_connection() as holder:
        holder.execute("SELECT FROM jobs_backlogrecord WHERE id = ANY(%s) FOR UPDATE", [[each.pk for each in rows]])
        claimed = beside(lambda: claim_ready(queue="availability"))
        assert claimed.result(PATIENCE) == []
        holder.rollback()
    assert [record.id for record in claim_ready(queue="availability")] == [each.pk for each in rows[:2]]
