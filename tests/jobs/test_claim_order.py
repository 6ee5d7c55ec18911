"""The claim order: a pure model of it, and the plan that the database makes for it."""

from datetime import date, timedelta
from uuid import uuid4

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from jobs import claiming, rescuing, tick
from jobs.models import BacklogRecord
from jobs.order import claim_key, in_claim_order
from jobs.settling import SETTLE_SUCCEEDED
from jobs.states import Status
from schedules import emitter
from tests.factories import NOON, make_lane, make_record, make_throttle, make_worker
from tests.jobs import claim_plans
from tests.jobs.claim_plans import CACHE_MODES, plans_of_the_prepared

crowded = claim_plans.crowded

TODAY = date(2026, 3, 2)

RANKS = st.fixed_dictionaries(
    {
        "priority": st.sampled_from([-1, 0, 0, 100, 1000]),
        "rank_day": st.sampled_from([None, TODAY, TODAY - timedelta(days=1)]),
        "tried_at": st.sampled_from([None, NOON, NOON - timedelta(hours=1)]),
        "expected_seconds": st.sampled_from([None, 0.0, 0.5, 3600.0]),
    }
)


def in_order_of_the_design(records: list[BacklogRecord]) -> list[int]:
    """`priority DESC, rank_day ASC NULLS FIRST, tried_at …, expected_seconds …, id`, by one stable sort per key."""
    ordered = sorted(records, key=lambda record: record.pk)
    for name in ("expected_seconds", "tried_at", "rank_day"):
        without = [record for record in ordered if getattr(record, name) is None]
        with_one = [record for record in ordered if getattr(record, name) is not None]
        ordered = without + sorted(with_one, key=lambda record: getattr(record, name))
    return [record.pk for record in sorted(ordered, key=lambda record: -record.priority)]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("throttled", [False, True], ids=["unthrottled", "over two lanes"])
@given(rows=st.lists(RANKS, min_size=2, max_size=12), batch=st.integers(1, 5))
def test_batches_of_claims_come_in_the_order_of_the_model(throttled, rows, batch):
    BacklogRecord.objects.all().delete()
    lanes = [0, make_lane(make_throttle(100))] if throttled else [0, 0]
    records = [make_record(**ranks, lane=lanes[number % 2]) for number, ranks in enumerate(rows)]
    worker, claimed = make_worker(), []
    while found := claiming.claim("default", worker_id=worker.pk, limit=batch, now=NOON):
        claimed += [record.id for record in found]
    assert claimed == in_order_of_the_design(records)
    assert claimed == [record.pk for record in in_claim_order(records)]
    assert claimed == list(BacklogRecord.objects.in_claim_order().values_list("pk", flat=True))
    assert claimed == [record.pk for record in sorted(records, key=claim_key)]


def test_a_claim_beside_throttles_reads_no_table_of_records_from_end_to_end(crowded):
    full, roomy = (make_lane(make_throttle(cap)) for cap in (1, 1000))
    BacklogRecord.objects.filter(lane=1).update(lane=full)
    BacklogRecord.objects.filter(lane=2).update(lane=roomy)
    make_record(Status.RUNNING, lane=full)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_backlogrecord")
        for cache_mode in CACHE_MODES:
            cursor.execute(f"SET plan_cache_mode = {cache_mode}")
            cursor.execute(SCANS)
            before = cursor.fetchone()
            assert len(claiming.claim("default", worker_id=1, limit=16, now=NOON)) == 16
            cursor.execute(SCANS)
            sequential, fetched = (after - then for after, then in zip(cursor.fetchone(), before, strict=True))
            assert sequential == 0
            assert fetched < 200
        cursor.execute("RESET plan_cache_mode")


SCANS = "SELECT seq_scan, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'jobs_backlogrecord'"

SETTLED = {"id": "{1,2}", "attempt": "{1,1}", "worker_id": "{1,1}", "lease_token": None, "facts": None, "now": None}

LOOK = tick.LOOK.format(step="".join(f", {each}" for each in emitter.COLUMNS))
LOOKED = {"queues": ["default", "backups"], "now": None, "unreadable": []}
RESCUED = {"lease": 60.0, "now": NOON, "ids": [1], "instants": [NOON], "set_aside": []}


def test_the_plans_of_claim_look_settle_and_rescue_read_indexes_only(crowded):
    claimed = {"queue": "default", "worker": 1, "token": uuid4(), "lease": 60.0, "limit": 16}
    for cache_mode in CACHE_MODES:
        for now in (None, NOON):  # the clock of the database, an injected clock
            plan = plans_of_the_prepared(claiming.CLAIM, {**claimed, "now": now}, cache_mode)
            assert "Index Scan using backlog_claim_order" in plan, plan
            assert "Tid Scan" in plan, plan
            assert "Sort" not in plan, plan
            assert "Seq Scan" not in plan, plan
            plan = plans_of_the_prepared(claiming.CLAIM_WOKEN, {**claimed, "now": now}, cache_mode)
            assert "Index Scan using backlog_claim_order" in plan, plan
            assert "Seq Scan on jobs_backlogrecord" not in plan, plan
        look = plans_of_the_prepared(LOOK, LOOKED, cache_mode)
        for index in ("backlog_waiting_until", "backlog_ready_closes", "backlog_lease_expires", "backlog_claim_order"):
            assert index in look, look
        assert "Sort" not in look, look
        settle = plans_of_the_prepared(SETTLE_SUCCEEDED, SETTLED, cache_mode)
        assert "Index Scan using jobs_backlogrecord_pkey" in settle, settle
        assert "Nested Loop" in settle, settle
        rescue = plans_of_the_prepared(rescuing.EXPIRED, RESCUED, cache_mode)
        assert "Index Scan using backlog_lease_expires" in rescue, rescue
        assert "Seq Scan on jobs_backlogrecord" not in look + settle + rescue
