"""Retry: what waits and what has ended is ready again, also while emitters are at it."""

from datetime import date, timedelta

import psycopg
import pytest
from django.db import connection

from jobs import backlog, claiming, settling, window_ends
from jobs.backlog import retrying
from jobs.handlers import Kind, registry
from jobs.models import BacklogRecord
from jobs.outcomes import Released, Succeeded
from jobs.priorities import FIRST_IN_LINE
from jobs.states import UNFINISHED, Status, WaitingFor
from jobs.wakeups import CHANNEL
from tests.factories import NOON, claim_ready, make_claimed, make_record
from tests.jobs.backlog.changes import KEY, LATER, changed, facts_of, fresh, held_up, listening
from tests.threads import another_connection, at_once, beside
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db(transaction=True)


class TestRetryWhatWaits:
    @pytest.mark.parametrize("reason", list(WaitingFor))
    def test_it_is_ready_at_once_whatever_it_waits_for_and_keeps_its_failures_and_its_place(self, reason):
        record = make_record(
            Status.WAITING, waiting_for=reason, failures=3, exclusive_key=KEY, tried_at=NOON, attempt=7,
            due_day=date(2026, 3, 1), rank_day=date(2026, 3, 2), closes_at=NOON + timedelta(hours=1),
        )  # fmt: skip
        diff = changed(record, lambda: backlog.retry([record.pk], now=LATER))
        assert diff == {"status": Status.READY, "waiting_for": None, "run_after": LATER, "exclusive_key": None}


class TestRetryWhatEnded:
    @pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED])
    def test_it_starts_a_fresh_series_where_it_would_have_stood(self, status, kind):
        record = make_record(
            status, queue="backups", failures=4, last_error="refused", attempt=9, tried_at=NOON, exclusive_key=KEY,
            due_day=date(2026, 2, 27), rank_day=date(2026, 3, 2), cancel_requested_at=NOON,
            closes_at=NOON + timedelta(hours=1),
        )  # fmt: skip
        diff = changed(record, lambda: backlog.retry([record.pk], now=LATER))
        assert diff == {
            "status": Status.READY, "queue": "home", "run_after": LATER, "finished_at": None, "failures": 0,
            "first_failure_at": None, "last_failure_at": None, "rank_day": date(2026, 2, 27), "tried_at": None,
            "cancel_requested_at": None, "exclusive_key": None,
        }  # fmt: skip

    def test_the_late_result_of_an_old_attempt_is_refused(self, kind):
        make_record(queue="home")
        [old] = claim_ready(1, "home")
        backlog.cancel([old.id], now=NOON)
        settling.settle([(old, Released())], now=NOON)
        backlog.retry([old.id], now=NOON)
        [current] = claim_ready(1, "home")
        late = make_claimed(**{**old._asdict(), "attempt": old.attempt + 1})
        assert settling.settle([(late, Succeeded())], now=LATER).lost == {old.id}
        assert fresh(BacklogRecord(pk=current.id)).status == Status.RUNNING

    def test_a_window_that_has_closed_is_met_by_the_next_tick(self, monkeypatch):
        tomorrow = NOON + timedelta(days=1)

        def openings(records, now):
            return {pk: (tomorrow, tomorrow + timedelta(hours=1)) for pk, _ in records}

        monkeypatch.setitem(registry.kinds, "test", Kind("test", next_opening=openings))
        record = make_record(Status.FAILED, closes_at=NOON - timedelta(hours=1))
        backlog.retry([record.pk], now=NOON)
        assert claiming.claim("default", worker_id=1, limit=1, now=NOON) == []
        window_ends.close_windows(NOON)
        assert (fresh(record).status, fresh(record).run_after) == (Status.WAITING, tomorrow)

    @pytest.mark.parametrize("status", UNFINISHED)
    def test_an_unfinished_record_of_its_subject_supersedes_it_or_else_the_latest_is_opened(self, status):
        older, latest = (make_record(Status.FAILED, subject="one") for _ in range(2))
        goes_on = make_record(status, subject="one")
        make_record(status, subject="one", kind="another")
        result = []
        assert changed(latest, lambda: result.append(backlog.retry([latest.pk, older.pk]))) == {}
        assert (result[0].superseded, result[0].ready) == ({older.pk: goes_on.pk, latest.pk: goes_on.pk}, [])
        goes_on.delete()
        result = backlog.retry([latest.pk, older.pk])
        assert (result.ready, result.superseded) == ([latest.pk], {older.pk: latest.pk})

    def test_each_record_is_named_in_one_place_its_queue_is_woken_and_what_needs_no_retry_is_left_alone(self):
        records = {status: make_record(status, kind="not known here", queue="theirs") for status in Status}
        woken = make_record(Status.CANCELLED, priority=FIRST_IN_LINE - 5)
        before = {status: facts_of(records[status]) for status in (Status.READY, Status.RUNNING, Status.SUCCEEDED)}
        ids = {status: record.pk for status, record in records.items()}
        with listening(CHANNEL) as heard:
            result = backlog.retry([*ids.values(), 10**12])
            assert heard() == ["theirs"]
        retried = (Status.WAITING, Status.READY, Status.FAILED, Status.CANCELLED)
        assert result.ready == sorted(ids[status] for status in retried)
        assert (result.running, result.succeeded) == ([ids[Status.RUNNING]], [ids[Status.SUCCEEDED]])
        assert (result.superseded, result.missing) == ({}, [10**12])
        assert {status: facts_of(records[status]) for status in before} == before
        assert fresh(records[Status.FAILED]).queue == "theirs"
        backlog.retry([woken.pk])
        assert fresh(woken).priority == -5  # what it was given for one recheck is over


def waits(other: psycopg.Connection) -> bool:
    """True if it waits for another session's lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [other.info.backend_pid])
        return bool(cursor.fetchone()[0])


class TestRetryBesideEmitters:
    def test_retries_that_need_each_others_subjects_both_end(self):
        old = {name: [make_record(Status.FAILED, subject=name) for _ in range(2)] for name in "ab"}
        # ids ascend as a1 a2 b1 b2; the second caller opens b before a
        BacklogRecord.objects.filter(pk=old["b"][1].pk).update(subject="c")
        BacklogRecord.objects.filter(pk=old["a"][1].pk).update(subject="b")
        BacklogRecord.objects.filter(pk=old["b"][1].pk).update(subject="a")
        one = [old["a"][0].pk, old["b"][0].pk]
        other = [old["a"][1].pk, old["b"][1].pk]
        results = at_once(lambda: backlog.retry(one), lambda: backlog.retry(other))
        assert sum(len(result.ready) for result in results) == 2
        assert sorted(BacklogRecord.objects.unfinished().values_list("subject", flat=True)) == ["a", "b"]

    def test_a_deadlock_with_an_emitter_is_tried_again_and_what_it_emitted_is_named(self, monkeypatch):
        a, b = make_record(Status.FAILED, subject="a"), make_record(Status.FAILED, subject="b")
        insert = (
            "INSERT INTO jobs_backlogrecord (kind, queue, subject, payload, status, run_after, priority, failures,"
            " last_error, attempt, lane) VALUES ('test', 'default', %s, '{}', 1, now(), 0, 0, '', 0, 0)"
            " ON CONFLICT DO NOTHING"
        )
        stalled = "failures = CASE WHEN b.subject = 'b' THEN length(pg_advisory_xact_lock(4711)::text) ELSE 0 END"
        monkeypatch.setattr(retrying, "OPEN_AGAIN", retrying.OPEN_AGAIN.replace("failures = 0", stalled))
        with another_connection() as between, another_connection() as emitting:
            between.execute("SELECT pg_advisory_xact_lock(4711)")
            emitting.execute("SET deadlock_timeout = '1h'")  # so the retry has to give way
            emitting.execute(insert, ["b"])
            with held_up(lambda: backlog.retry([a.pk, b.pk]), between) as retry:
                # PostgreSQL looks for a deadlock once, a second after a wait begins: this one's is there before
                emit = beside(lambda: emitting.execute(insert, ["a"]))
                eventually(lambda: emit.done() or waits(emitting))
                between.rollback()
                emit.result(PATIENCE)
                emitting.commit()
                result = retry.result(PATIENCE)
        emitted = dict(BacklogRecord.objects.ready().values_list("subject", "pk"))
        assert result.superseded == {a.pk: emitted["a"], b.pk: emitted["b"]}
