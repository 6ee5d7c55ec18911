"""Cancel, retry, pause, resume, enqueue: what an operator does to the backlog, also while workers are at it."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.forms.models import model_to_dict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs import backlog, claiming, emitter
from jobs.backlog import NewRecord
from jobs.handlers import Kind, registry
from jobs.models import BacklogRecord, PausedQueue, RetryPolicy
from jobs.outcomes import FIRST_IN_LINE, Failed, Handoff, Released, Succeeded
from jobs.states import FINISHED, UNFINISHED, Status, WaitingFor
from jobs.wakeups import CANCEL_CHANNEL, CHANNEL
from tests.factories import NOON, make_claimed, make_record, make_worker
from tests.threads import another_connection, at_once, impatience
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)

LATER = NOON + timedelta(seconds=30)
KEY = "source:1"


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> str:
    """A kind whose records start in a queue of their own."""
    monkeypatch.setitem(registry.kinds, "test", Kind("test", home_queue="home"))
    return "test"


def fresh(record: BacklogRecord) -> BacklogRecord:
    return BacklogRecord.objects.get(pk=record.pk)


def facts_of(record: BacklogRecord) -> dict[str, Any]:
    return {field.attname: getattr(fresh(record), field.attname) for field in BacklogRecord._meta.concrete_fields}


def changed(record: BacklogRecord, act: Callable[[], object]) -> dict[str, Any]:
    """The columns of `record` that `act` changes, with their new values."""
    before = facts_of(record)
    act()
    return {name: value for name, value in facts_of(record).items() if value != before[name]}


@contextmanager
def listening(channel: str) -> Iterator[Callable[[], list[str]]]:
    """Yields what tells the payloads of the notifications on `channel` so far."""
    with another_connection() as other:
        other.autocommit = True
        other.execute(f"LISTEN {channel}")
        yield lambda: [notification.payload for notification in other.notifies(timeout=2, stop_after=1)]


@contextmanager
def held_up(act: Callable[[], Any], holder: psycopg.Connection) -> Iterator[Future[Any]]:
    """`act` in a thread with a connection of its own, once it waits for a lock that `holder` has."""

    def work() -> Any:
        try:
            return act()
        finally:
            connection.close()

    blocked = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"

    def somebody_waits() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(blocked, [holder.info.backend_pid])
            return bool(cursor.fetchone()[0])

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        eventually(lambda: future.done() or somebody_waits())
        assert not future.done(), f"it did not wait: {future.result()}"
        yield future


def claim_one(queue: str = "default") -> claiming.Claimed:
    [claimed] = claiming.claim(queue, worker_id=make_worker().pk, limit=1, now=NOON)
    return claimed


class TestCancel:
    @pytest.mark.parametrize("status", [Status.WAITING, Status.READY])
    def test_what_does_not_run_is_cancelled_at_once_and_nothing_else_of_it_changes(self, status):
        record = make_record(status, failures=2, last_error="refused", closes_at=NOON + timedelta(hours=1))
        result = []
        diff = changed(record, lambda: result.append(backlog.cancel([record.pk], now=LATER)))
        expected = {"status": Status.CANCELLED, "finished_at": LATER}
        assert diff == expected | ({"waiting_for": None} if status == Status.WAITING else {})
        assert result == [backlog.CancelResult([record.pk], [], [], [])]

    def test_what_runs_is_asked_to_stop_and_keeps_its_lease(self):
        record = make_record(Status.RUNNING)
        with listening(CANCEL_CHANNEL) as heard:
            diff = changed(record, lambda: backlog.cancel([record.pk], now=LATER))
            assert heard() == [str(record.pk)]
        assert diff == {"cancel_requested_at": LATER}

    def test_the_first_cancel_of_a_run_is_the_one_that_counts(self):
        record = make_record(Status.RUNNING)
        backlog.cancel([record.pk], now=NOON)
        assert backlog.cancel([record.pk], now=LATER).stopping == [record.pk]
        assert fresh(record).cancel_requested_at == NOON

    @pytest.mark.parametrize("status", FINISHED)
    def test_what_has_ended_is_left_alone(self, status):
        record = make_record(status)
        assert changed(record, lambda: backlog.cancel([record.pk], now=LATER)) == {}
        assert backlog.cancel([record.pk]).finished == [record.pk]

    def test_each_record_is_told_in_one_place_in_ascending_order(self):
        ids = {status: [make_record(status).pk for _ in range(2)] for status in Status}
        missing = [10**12, 10**13]
        every = [pk for pks in ids.values() for pk in pks] + missing
        result = backlog.cancel([*reversed(every), *every])
        assert result.cancelled == sorted(ids[Status.WAITING] + ids[Status.READY])
        assert result.stopping == ids[Status.RUNNING]
        assert result.finished == sorted(pk for status in FINISHED for pk in ids[status])
        assert result.missing == missing

    def test_without_now_it_ends_by_the_databases_clock(self):
        record = make_record()
        backlog.cancel([record.pk])
        assert abs(datetime.now(UTC) - fresh(record).finished_at) < timedelta(minutes=1)

    def test_nothing_is_cancelled_by_an_empty_list(self):
        make_record()
        assert backlog.cancel([]) == backlog.CancelResult([], [], [], [])
        assert BacklogRecord.objects.ready().count() == 1

    def test_who_waits_behind_its_exclusive_key_looks_again(self):
        holder = make_record(queue="backups", exclusive_key=KEY)
        behind = make_record(
            Status.WAITING, waiting_for=WaitingFor.THROTTLE, exclusive_key=KEY, run_after=NOON + timedelta(days=1)
        )
        other = make_record(
            Status.WAITING,
            waiting_for=WaitingFor.THROTTLE,
            exclusive_key="source:2",
            run_after=NOON + timedelta(days=1),
        )
        backlog.cancel([holder.pk], now=LATER)
        emitter.promote(LATER)
        assert fresh(holder).exclusive_key is None
        assert fresh(behind).status == Status.READY
        assert fresh(other).status == Status.WAITING

    def test_who_waits_itself_gives_nobody_the_key(self):
        make_record(Status.RUNNING, exclusive_key=KEY)
        waiting = {"waiting_for": WaitingFor.THROTTLE, "exclusive_key": KEY, "run_after": NOON + timedelta(days=1)}
        first, second = make_record(Status.WAITING, **waiting), make_record(Status.WAITING, **waiting)
        backlog.cancel([first.pk], now=LATER)
        assert fresh(second).run_after == NOON + timedelta(days=1)


class TestCancelBesideWorkers:
    def test_a_claim_under_way_comes_first_and_its_run_is_stopped(self):
        record = make_record()
        with another_connection() as claimer:
            claimer.execute(
                "UPDATE jobs_backlogrecord SET status = 2, attempt = 1, started_at = now(), leased_by_id = 1,"
                " lease_token = gen_random_uuid(), lease_expires_at = now() WHERE id = %s",
                [record.pk],
            )
            with held_up(lambda: backlog.cancel([record.pk]), claimer) as cancelling:
                claimer.commit()
                assert cancelling.result(20).stopping == [record.pk]
        assert fresh(record).status == Status.RUNNING
        assert fresh(record).cancel_requested_at is not None

    def test_a_settle_under_way_comes_first_and_what_it_left_is_cancelled(self):
        record = make_record(Status.RUNNING)
        with another_connection() as settler:
            settler.execute(
                "UPDATE jobs_backlogrecord SET status = 0, waiting_for = 3, leased_by_id = NULL, lease_token = NULL,"
                " lease_expires_at = NULL WHERE id = %s",
                [record.pk],
            )
            with held_up(lambda: backlog.cancel([record.pk]), settler) as cancelling:
                settler.commit()
                assert cancelling.result(20).cancelled == [record.pk]
        assert fresh(record).status == Status.CANCELLED

    def test_a_claim_passes_by_what_is_being_cancelled(self):
        record = make_record()
        with transaction.atomic():
            backlog.cancel([record.pk])
            [claimed] = at_once(lambda: claiming.claim("default", worker_id=1, limit=1))
        assert claimed == []
        assert fresh(record).status == Status.CANCELLED

    @pytest.mark.parametrize("outcome", [Released(), Failed("x"), Handoff("backups")])
    def test_what_was_cancelled_while_it_ran_ends_as_cancelled(self, outcome):
        make_record()
        claimed = claim_one()
        backlog.cancel([claimed.id], now=NOON)
        claiming.settle([(claimed, outcome)], now=LATER)
        assert BacklogRecord.objects.get().status == Status.CANCELLED

    def test_unless_it_succeeded(self):
        make_record()
        claimed = claim_one()
        backlog.cancel([claimed.id], now=NOON)
        claiming.settle([(claimed, Succeeded())], now=LATER)
        assert BacklogRecord.objects.get().status == Status.SUCCEEDED

    def test_it_locks_in_id_order_whatever_order_it_is_given(self):
        first, second = make_record(), make_record()
        with another_connection() as other:
            other.execute("SELECT FROM jobs_backlogrecord WHERE id = %s FOR UPDATE", [first.pk])
            with held_up(lambda: backlog.cancel([second.pk, first.pk]), other) as cancelling, impatience():
                assert BacklogRecord.objects.select_for_update(nowait=True).filter(pk=second.pk).update(lane=0) == 1
                other.commit()
                assert cancelling.result(20).cancelled == [first.pk, second.pk]

    def test_the_gate_is_opened_under_the_lock_of_its_key(self):
        holder = make_record(exclusive_key=KEY)
        with another_connection() as settler:
            settler.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [KEY])
            with held_up(lambda: backlog.cancel([holder.pk], now=LATER), settler) as cancelling:
                behind = make_record(Status.WAITING, waiting_for=WaitingFor.THROTTLE, exclusive_key=KEY)
                settler.commit()
                cancelling.result(20)
        assert fresh(behind).run_after == LATER

    def test_cancels_claims_and_settles_at_once_leave_nothing_between_two_states(self):
        ids = [make_record().pk for _ in range(60)]
        workers = [make_worker().pk for _ in range(2)]
        results: list[backlog.CancelResult] = []

        def work(worker_id: int) -> None:
            for _ in range(20):
                claimed = claiming.claim("default", worker_id=worker_id, limit=5)
                claiming.settle([(record, Failed("x")) for record in claimed])

        def cancel_all() -> None:
            results.extend(backlog.cancel(batch) for batch in backlog.in_batches(ids, 4))

        at_once(cancel_all, *[lambda pk=pk: work(pk) for pk in workers])
        for pk in workers:
            work(pk)
        stopping = {pk for result in results for pk in result.stopping}
        assert sum(len(result.cancelled) for result in results) + len(stopping) == 60
        assert set(BacklogRecord.objects.values_list("status", flat=True)) == {Status.CANCELLED}


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

    def test_the_next_claim_counts_its_attempts_on(self, kind):
        record = make_record(Status.FAILED, attempt=9)
        backlog.retry([record.pk], now=NOON)
        assert claim_one("home").attempt == 10

    def test_the_late_result_of_an_old_attempt_is_refused(self, kind):
        make_record(queue="home")
        old = claim_one("home")
        backlog.cancel([old.id], now=NOON)
        claiming.settle([(old, Released())], now=NOON)
        backlog.retry([old.id], now=NOON)
        current = claim_one("home")
        late = make_claimed(**{**old._asdict(), "attempt": old.attempt + 1})
        assert claiming.settle([(late, Succeeded())], now=LATER).lost == {old.id}
        assert fresh(BacklogRecord(pk=current.id)).status == Status.RUNNING

    def test_a_retried_record_can_fail_again_and_its_series_starts_at_one(self, kind):
        record = make_record(Status.FAILED, failures=6)
        backlog.retry([record.pk], now=NOON)
        claiming.settle([(claim_one("home"), Failed("again"))], now=LATER)
        assert (fresh(record).failures, fresh(record).first_failure_at) == (1, LATER)

    def test_a_window_that_has_closed_is_met_by_the_next_tick(self, monkeypatch):
        tomorrow = NOON + timedelta(days=1)

        def openings(records, now):
            return {pk: (tomorrow, tomorrow + timedelta(hours=1)) for pk, _ in records}

        monkeypatch.setitem(registry.kinds, "test", Kind("test", next_opening=openings))
        record = make_record(Status.FAILED, closes_at=NOON - timedelta(hours=1))
        backlog.retry([record.pk], now=NOON)
        assert claiming.claim("default", worker_id=1, limit=1, now=NOON) == []
        emitter.close_windows(NOON)
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
                result = retrying.result(20)
        assert row is not None
        assert result.superseded == {ended.pk: row[0]}
        assert result.ready == [free.pk]
        assert fresh(ended).status == Status.FAILED

    def test_one_that_is_not_emitted_after_all_does_not_count(self):
        ended = make_record(Status.FAILED, subject="one")
        with another_connection() as emitting:
            emitting.execute(
                "INSERT INTO jobs_backlogrecord (kind, queue, subject, payload, status, run_after, priority, failures,"
                " last_error, attempt, lane) VALUES ('test', 'default', 'one', '{}', 1, now(), 0, 0, '', 0, 0)"
            )
            with held_up(lambda: backlog.retry([ended.pk]), emitting) as retrying:
                emitting.rollback()
                assert retrying.result(20).ready == [ended.pk]

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
                result = retrying.result(20)
        assert set(result.superseded) == {a.pk, b.pk}


class TestPausedQueues:
    def test_nothing_is_claimed_from_a_paused_queue_until_it_is_resumed(self):
        make_record()
        assert backlog.pause_queue("default", "the store is full", now=NOON) is True
        assert claiming.claim("default", worker_id=1, limit=1) == []
        assert model_to_dict(PausedQueue.objects.get()) == {
            "name": "default", "paused_at": NOON, "reason": "the store is full",
        }  # fmt: skip
        assert backlog.resume_queue("default") is True
        assert len(claiming.claim("default", worker_id=1, limit=1)) == 1

    def test_pausing_again_keeps_the_first_instant_and_takes_a_new_reason(self):
        backlog.pause_queue("default", "one", now=NOON)
        assert backlog.pause_queue("default", now=LATER) is False
        assert backlog.pause_queue("default", "one", now=LATER) is False
        assert backlog.pause_queue("default", "two", now=LATER) is True
        paused = PausedQueue.objects.get()
        assert (paused.reason, paused.paused_at) == ("two", NOON)

    def test_resuming_wakes_its_workers_once(self):
        backlog.pause_queue("backups")
        with listening(CHANNEL) as heard:
            assert backlog.resume_queue("backups") is True
            assert heard() == ["backups"]
            assert backlog.resume_queue("backups") is False

    @pytest.mark.parametrize("verb", [backlog.pause_queue, backlog.resume_queue])
    def test_an_unknown_queue_is_refused_with_the_known_ones(self, verb):
        make_record(Status.SUCCEEDED, queue="bakcups")
        with pytest.raises(ValueError, match="no queue 'bakcups'; there are availability, backups"):
            verb("bakcups")

    @pytest.mark.parametrize("status", UNFINISHED)
    def test_a_queue_that_only_records_know_can_be_paused(self, status):
        make_record(status, queue="theirs")
        assert backlog.pause_queue("theirs")

    def test_a_paused_queue_can_be_resumed_when_nothing_else_knows_it(self):
        PausedQueue.objects.create(name="gone")
        assert backlog.resume_queue("gone")

    @pytest.mark.parametrize("reason", ["x" * 201, "\0"])
    def test_a_reason_that_cannot_be_stored_is_refused(self, reason):
        with pytest.raises(ValueError, match="reason"):
            backlog.pause_queue("default", reason)

    def test_a_resume_under_way_comes_first_and_the_pause_is_a_new_one(self):
        backlog.pause_queue("default", "one")
        with another_connection() as resuming:
            resuming.execute("DELETE FROM jobs_pausedqueue")
            with held_up(lambda: backlog.pause_queue("default", "two", now=LATER), resuming) as pausing:
                resuming.commit()
                assert pausing.result(20) is True
        assert PausedQueue.objects.get().paused_at == LATER

    def test_two_who_pause_at_once_agree_that_one_did(self):
        assert sorted(at_once(*[lambda: backlog.pause_queue("default", "full")] * 2)) == [False, True]


class TestEnqueue:
    def test_pairs_are_ready_in_the_home_queue_of_their_kind_in_the_order_given(self, kind):
        assert backlog.enqueue(kind, ((f"s{n}", {"n": n}) for n in range(5000)), priority=3, now=NOON) == 5000
        records = list(BacklogRecord.objects.order_by("id"))
        assert [(record.subject, record.payload) for record in records] == [(f"s{n}", {"n": n}) for n in range(5000)]
        ready = {(record.status, record.queue, record.run_after, record.priority) for record in records}
        assert ready == {(Status.READY, "home", NOON, 3)}
        assert claim_one("home").subject == "s0"

    def test_a_record_may_start_later_close_and_have_a_priority_of_its_own(self, kind):
        policy_id = RetryPolicy.objects.create(name="mine").pk
        items = [
            NewRecord("later", {"a": 1}, run_after=LATER, priority=0, closes_at=LATER + timedelta(hours=1)),
            NewRecord("past", run_after=NOON - timedelta(days=1)),
            NewRecord("now", run_after=NOON),
        ]
        backlog.enqueue(kind, items, queue="mine", priority=7, lane=3, retry_policy_id=policy_id, now=NOON)
        rows = BacklogRecord.objects.order_by("id").values_list(
            "subject", "status", "waiting_for", "run_after", "closes_at", "priority"
        )
        assert list(rows) == [
            ("later", Status.WAITING, WaitingFor.START, LATER, LATER + timedelta(hours=1), 0),
            ("past", Status.READY, None, NOON - timedelta(days=1), None, 7),
            ("now", Status.READY, None, NOON, None, 7),
        ]
        assert set(BacklogRecord.objects.values_list("queue", "lane", "retry_policy_id")) == {("mine", 3, policy_id)}
        assert set(BacklogRecord.objects.values_list("inserted_at", flat=True)) == {NOON}
        assert BacklogRecord.objects.get(subject="past").payload == {}

    def test_refuses_a_retry_policy_that_does_not_exist(self):
        with pytest.raises(ValueError, match="no retry policy 12345"):
            backlog.enqueue("noop", [("a", {})], retry_policy_id=12345)
        assert not BacklogRecord.objects.exists()

    def test_a_subject_that_is_on_the_backlog_is_left_out_and_one_that_ended_is_not(self, kind):
        make_record(Status.RUNNING, subject="runs")
        make_record(Status.SUCCEEDED, subject="ended")
        items = [("runs", {}), ("ended", {}), ("new", {}), ("new", {})]
        assert backlog.enqueue(kind, items) == 2
        assert backlog.enqueue(kind, items) == 0

    def test_its_queue_is_woken_after_the_commit(self, kind):
        with listening(CHANNEL) as heard:
            backlog.enqueue(kind, [("a", {})], queue="woken by an enqueue")
            assert heard() == ["woken by an enqueue"]

    def test_nothing_to_put_there_is_no_error(self, kind):
        assert backlog.enqueue(kind, []) == 0

    @pytest.mark.parametrize(
        ("item", "message"),
        [
            (("bad", {"when": NOON}), "the payload of 'bad' is not JSON: Object of type datetime"),
            (("bad", {"x": float("nan")}), "the payload of 'bad' is not JSON"),
            (("bad", {("a", 1): 1}), "the payload of 'bad' is not JSON"),
            (("bad", ["a list"]), "the payload of 'bad' is not a JSON object"),
            (("bad", {"x": "NUL \0"}), "the record 'bad' cannot be stored"),
            (("bad", {"x": "\ud800"}), "the record 'bad' cannot be stored"),
            (("bad \0", {}), r"the record 'bad \\x00' cannot be stored"),
            (("", {}), "a subject is a text of 1 to 200 characters"),
            (("x" * 201, {}), "a subject is a text of 1 to 200 characters"),
            ((7, {}), "a subject is a text of 1 to 200 characters, not 7"),
            (NewRecord("bad", run_after=datetime(2026, 3, 2)), "run_after of 'bad' has no time zone"),  # noqa: DTZ001
            (NewRecord("bad", closes_at=datetime(2026, 3, 2)), "closes_at of 'bad' has no time zone"),  # noqa: DTZ001
            (NewRecord("bad", priority=10**6), "the priority of 'bad' must lie between ±100000"),
        ],
    )
    def test_what_cannot_be_stored_is_named_and_nothing_is_half_written(self, item, message, kind):
        items = [*[(f"good {n}", {}) for n in range(4000)], item, ("also good", {})]
        with pytest.raises(ValueError, match=message):
            backlog.enqueue(kind, items)
        assert not BacklogRecord.objects.exists()

    @pytest.mark.parametrize(
        "arguments", [{"kind": ""}, {"kind": "x" * 51}, {"queue": ""}, {"queue": "x" * 51}, {"priority": -(10**6)}]
    )
    def test_a_call_that_cannot_be_right_is_refused(self, arguments):
        with pytest.raises(ValueError, match=r"must lie between|1 to 50 characters"):
            backlog.enqueue(arguments.pop("kind", "test"), [("a", {})], **arguments)

    def test_an_instant_of_another_zone_is_the_same_instant(self, kind):
        berlin = NOON.astimezone().replace(tzinfo=UTC).astimezone(NOON.tzinfo)
        backlog.enqueue(kind, [NewRecord("a", run_after=berlin)], now=NOON)
        assert BacklogRecord.objects.get().run_after == berlin

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(
            st.tuples(
                st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=200),
                st.dictionaries(
                    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
                    st.recursive(
                        st.none()
                        | st.booleans()
                        | st.integers(-(2**63), 2**63)
                        | st.floats(-1e9, 1e9)
                        | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
                        lambda inner: st.lists(inner, max_size=3),
                        max_leaves=5,
                    ),
                    max_size=4,
                ),
            ),
            max_size=12,
        )
    )
    def test_whatever_text_and_json_is_put_there_comes_back_as_it_was(self, items):
        BacklogRecord.objects.all().delete()
        first = dict(reversed(items))
        assert backlog.enqueue("test", items) == len(first)
        stored = dict(BacklogRecord.objects.values_list("subject", "payload"))
        assert stored == first


class TestAnyOrderOfVerbs:
    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(st.tuples(st.sampled_from(["cancel", "retry", "claim", "settle", "fail", "tick"]), st.integers(0, 3)))
    )
    def test_keeps_attempts_growing_and_one_unfinished_record_a_subject(self, steps):
        BacklogRecord.objects.all().delete()
        ids = [make_record(Status.FAILED, subject=f"s{n % 2}", attempt=n).pk for n in range(4)]
        running: dict[int, claiming.Claimed] = {}
        attempts = dict(BacklogRecord.objects.values_list("pk", "attempt"))
        for number, (step, index) in enumerate(steps):
            now = NOON + timedelta(minutes=number)
            if step == "cancel":
                backlog.cancel([ids[index]], now=now)
            elif step == "retry":
                backlog.retry([ids[index]], now=now)
            elif step == "claim":
                running |= {record.id: record for record in claiming.claim("default", worker_id=1, limit=1, now=now)}
            elif step in ("settle", "fail") and (record := running.pop(ids[index], None)):
                claiming.settle([(record, Succeeded() if step == "settle" else Failed("x"))], now=now)
            elif step == "tick":
                emitter.promote(now)
            current = dict(BacklogRecord.objects.values_list("pk", "attempt"))
            assert all(current[pk] >= attempts[pk] for pk in ids)
            attempts = current
            unfinished = list(BacklogRecord.objects.unfinished().values_list("subject", flat=True))
            assert len(unfinished) == len(set(unfinished))
            held = set(BacklogRecord.objects.running().values_list("pk", flat=True))
            assert held == set(running)


def test_long_lists_are_chopped_in_ascending_order():
    assert list(backlog.in_batches([5, 1, 3, 1, 4], 2)) == [[1, 3], [4, 5]]
    assert [len(batch) for batch in backlog.in_batches(range(2500))] == [1000, 1000, 500]
    assert list(backlog.in_batches([])) == []
