"""Retry: what waits and what has ended is ready again, also while emitters are at it."""

from datetime import date, timedelta

import pytest

from jobs import backlog, claiming, closing, settling
from jobs.handlers import Kind, registry
from jobs.models import BacklogRecord
from jobs.outcomes import Released, Succeeded
from jobs.priorities import FIRST_IN_LINE
from jobs.states import UNFINISHED, Status, WaitingFor
from jobs.wakeups import CHANNEL
from tests.factories import NOON, make_claimed, make_record
from tests.jobs.backlog.changes import KEY, LATER, changed, claim_one, fresh, held_up, listening
from tests.threads import another_connection, at_once
from tests.waiting import PATIENCE

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

    def test_its_queue_is_woken(self):
        record = make_record(Status.WAITING, queue="woken by a retry")
        with listening(CHANNEL) as heard:
            backlog.retry([record.pk])
            assert heard() == ["woken by a retry"]

    @pytest.mark.parametrize("status", [Status.READY, Status.RUNNING, Status.SUCCEEDED])
    def test_what_needs_no_retry_is_left_alone(self, status):
        record = make_record(status, exclusive_key=KEY)
        result = []
        assert changed(record, lambda: result.append(backlog.retry([record.pk], now=LATER))) == {}
        named = {Status.READY: "ready", Status.RUNNING: "running", Status.SUCCEEDED: "succeeded"}
        assert getattr(result[0], named[status]) == [record.pk]


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

    def test_a_kind_that_is_not_known_here_stays_in_its_queue(self):
        record = make_record(Status.FAILED, kind="of another program", queue="theirs")
        backlog.retry([record.pk])
        assert fresh(record).queue == "theirs"

    def test_what_a_woken_source_was_given_for_one_recheck_is_over(self):
        woken = make_record(Status.CANCELLED, priority=FIRST_IN_LINE - 5)
        usual = make_record(Status.CANCELLED, priority=105)
        backlog.retry([woken.pk, usual.pk])
        assert [fresh(woken).priority, fresh(usual).priority] == [-5, 105]

    def test_the_late_result_of_an_old_attempt_is_refused(self, kind):
        make_record(queue="home")
        old = claim_one("home")
        backlog.cancel([old.id], now=NOON)
        settling.settle([(old, Released())], now=NOON)
        backlog.retry([old.id], now=NOON)
        current = claim_one("home")
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
        closing.close_windows(NOON)
        assert (fresh(record).status, fresh(record).run_after) == (Status.WAITING, tomorrow)

    @pytest.mark.parametrize("status", UNFINISHED)
    def test_an_unfinished_record_of_its_subject_supersedes_it(self, status):
        ended = make_record(Status.FAILED, subject="one")
        goes_on = make_record(status, subject="one")
        make_record(status, subject="one", kind="another")
        result = []
        assert changed(ended, lambda: result.append(backlog.retry([ended.pk]))) == {}
        assert result[0].superseded == {ended.pk: goes_on.pk}
        assert result[0].ready == []

    def test_of_several_of_one_subject_the_latest_is_opened(self):
        older, latest = (make_record(Status.FAILED, subject="one") for _ in range(2))
        result = backlog.retry([latest.pk, older.pk])
        assert (result.ready, result.superseded) == ([latest.pk], {older.pk: latest.pk})

    def test_several_of_one_subject_name_the_record_that_goes_on_and_not_each_other(self):
        older, latest = (make_record(Status.FAILED, subject="one") for _ in range(2))
        goes_on = make_record(subject="one")
        result = backlog.retry([older.pk, latest.pk])
        assert result.superseded == {older.pk: goes_on.pk, latest.pk: goes_on.pk}

    def test_each_record_is_told_in_one_place(self):
        ids = {status: make_record(status).pk for status in Status}
        result = backlog.retry([*ids.values(), 10**12])
        retried = (Status.WAITING, Status.READY, Status.FAILED, Status.CANCELLED)
        assert result.ready == sorted(ids[status] for status in retried)
        assert (result.running, result.succeeded) == ([ids[Status.RUNNING]], [ids[Status.SUCCEEDED]])
        assert (result.superseded, result.missing) == ({}, [10**12])


class TestRetryBesideEmitters:
    def test_a_record_that_is_being_emitted_comes_first_and_is_named(self):
        ended, free = make_record(Status.FAILED, subject="one"), make_record(Status.FAILED, subject="two")
        with another_connection() as emitting:
            row = emitting.execute(
                "INSERT INTO jobs_backlogrecord (kind, queue, subject, payload, status, run_after, priority, failures,"
                " last_error, attempt, lane)"
                " VALUES ('test', 'default', 'one', '{}', 1, now(), 0, 0, '', 0, 0) RETURNING id"
            ).fetchone()
            with held_up(lambda: backlog.retry([ended.pk, free.pk]), emitting) as retrying:
                emitting.commit()
                result = retrying.result(PATIENCE)
        assert row is not None
        assert result.superseded == {ended.pk: row[0]}
        assert result.ready == [free.pk]
        assert fresh(ended).status == Status.FAILED

    def test_two_records_of_one_subject_retried_at_once_open_one(self):
        for _ in range(10):
            BacklogRecord.objects.all().delete()
            first, second = (make_record(Status.FAILED, subject="one") for _ in range(2))
            results = at_once(lambda a=first: backlog.retry([a.pk]), lambda b=second: backlog.retry([b.pk]))
            assert sum(len(result.ready) for result in results) == 1
            assert sum(len(result.superseded) for result in results) == 1

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

    def test_a_deadlock_with_an_emitter_is_tried_again(self):
        a, b = make_record(Status.FAILED, subject="a"), make_record(Status.FAILED, subject="b")
        insert = (
            "INSERT INTO jobs_backlogrecord (kind, queue, subject, payload, status, run_after, priority, failures,"
            " last_error, attempt, lane) VALUES ('test', 'default', %s, '{}', 1, now(), 0, 0, '', 0, 0)"
            " ON CONFLICT DO NOTHING"
        )
        with another_connection() as emitting:
            emitting.execute("SET deadlock_timeout = '1h'")
            emitting.execute(insert, ["b"])
            with held_up(lambda: backlog.retry([a.pk, b.pk]), emitting) as retrying:
                emitting.execute(insert, ["a"])  # waits for the retry, which waits for this: the retry has to give way
                emitting.commit()
                result = retrying.result(PATIENCE)
        assert set(result.superseded) == {a.pk, b.pk}
