"""Renew, settle, rescue: only the attempt that owns a record may write it."""

from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from jobs import claiming, rescuing, settling
from jobs.clock import database_clock
from jobs.handlers import Kind, one_by_one, registry
from jobs.models import Attempt, BacklogRecord
from jobs.outcomes import ClaimedRecord, Failed, Handoff, Outcome, Released, Succeeded, Unavailable
from jobs.set_aside import SetAside
from jobs.settling import LeaseLost
from jobs.states import AttemptOutcome, Status, WaitingFor
from tests.factories import NOON, claim_new, claim_ready, make_record, make_retry_policy, make_worker
from tests.jobs.stale_claims import STALE
from tests.operations.conditions.examining import finding
from tests.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)

LATER = NOON + timedelta(seconds=30)


def claim_one(now: datetime = NOON, **fields) -> ClaimedRecord:
    [claimed] = claim_new(1, now, **fields)
    return claimed


def claim_again(now: datetime = NOON) -> ClaimedRecord:
    [claimed] = claim_ready(1, now=now)
    return claimed


def stored(record: ClaimedRecord) -> BacklogRecord:
    return BacklogRecord.objects.get(pk=record.id)


def row(record: ClaimedRecord) -> dict:
    return BacklogRecord.objects.filter(pk=record.id).values().get()


@pytest.fixture
def hooked(monkeypatch):
    """Kind `test` with a settle hook; what it was called with."""
    calls: list[tuple[ClaimedRecord, Outcome]] = []
    kinds = dict(registry.kinds)
    monkeypatch.setattr(registry, "kinds", kinds)

    def after_settle(results: list[tuple[ClaimedRecord, Outcome]], now: datetime) -> None:
        assert now >= NOON
        calls.extend(results)

    registry.add(Kind("test", after_settle=after_settle))
    return calls


@pytest.fixture
def ended(monkeypatch):
    """The runs whose end was passed on."""
    found: list[ClaimedRecord] = []
    monkeypatch.setattr(registry, "at_end", [lambda records, outcome, ended_at: found.extend(records)])
    return found


def claimed_before(current: ClaimedRecord) -> ClaimedRecord:
    """An earlier claim of the same record by the same worker, which the database has lost."""
    return current._replace(lease_token=uuid4(), started_at=current.started_at - timedelta(seconds=3))


class TestFence:
    @pytest.mark.parametrize("what", STALE)
    @pytest.mark.parametrize("outcome", [Succeeded(), Failed("no"), Unavailable("away", 9), Released()])
    def test_a_result_of_another_attempt_worker_or_token_changes_nothing(self, what, outcome, hooked):
        current = claim_one(attempt=6)
        before = row(current)
        settled = settling.settle([(STALE[what](current), outcome)], now=LATER)
        assert settled.lost == {current.id}
        assert not settled.written
        assert row(current) == before
        assert not Attempt.objects.exists()
        assert not hooked
        with pytest.raises(LeaseLost, match=f"record {current.id}"):
            settled.raise_if_lost()

    def test_a_stale_result_in_one_batch_with_the_current_one_reaches_no_hook(self, hooked):
        stale = claim_one()
        settling.settle([(stale, Released())], now=NOON)
        hooked.clear()
        current = claim_again()
        # the worker that lost attempt 1 is given attempt 2; both end before its next settle
        lost = stale._replace(lease_token=uuid4(), worker_id=current.worker_id)
        settled = settling.settle([(lost, Succeeded()), (current, Failed("no"))], now=LATER)
        assert hooked == [(current, Failed("no"))]
        assert stored(current).status == Status.WAITING
        assert settled.lost == {stale.id}

    def test_a_repeated_settle_is_recognised_and_writes_nothing_twice(self, hooked):
        record = claim_one()
        assert settling.settle([(record, Failed("no"))], now=LATER).written == {record.id}
        before = row(record)
        again = settling.settle([(record, Failed("no"))], now=LATER)
        assert not again.written
        assert not again.lost
        assert row(record) == before
        assert stored(record).failures == 1
        assert len(hooked) == 1

    def test_of_two_results_of_one_attempt_in_a_batch_the_first_counts(self, hooked):
        record = claim_one()
        settled = settling.settle([(record, Succeeded()), (record, Released("stopped"))], now=LATER)
        assert hooked == [(record, Succeeded())]
        assert stored(record).status == Status.SUCCEEDED
        assert (settled.written, settled.lost) == ({record.id}, set())

    @pytest.mark.parametrize("is_the_lost_one_first", [True, False])
    @pytest.mark.parametrize(
        "outcomes",
        [
            (Failed("old"), Failed("no")),
            (Succeeded(), Failed("no")),
            (Released(), Succeeded()),
            (Handoff("second", "nas-7"), Handoff("second", "nas-7")),
            (Handoff("second", "nas-7"), Failed("no")),
        ],
    )
    def test_of_two_runs_under_one_attempt_number_only_the_one_that_holds_the_lease_counts(
        self, hooked, ended, caplog, outcomes, is_the_lost_one_first
    ):
        """The database failed over to a replica that did not know the first claim, and one worker got both."""
        current = claim_one()
        lost = claimed_before(current)
        results = list(zip((lost, current), outcomes, strict=True))
        settled = settling.settle(results if is_the_lost_one_first else results[::-1], now=LATER)
        assert hooked == [(current, outcomes[1])]
        assert (settled.written, settled.lost) == ({current.id}, {current.id})
        assert stored(current).waiting_for != WaitingFor.THROTTLE, "the lost one holds no exclusive key"
        assert ended == [current]
        assert caplog.text.count("lease lost (attempt 1)") == 1
        assert settling.settle([(lost, outcomes[0])], now=LATER).lost == {current.id}, "nor in a later batch"
        assert len(hooked) == 1

    @pytest.mark.parametrize("lost_outcome", [Succeeded(), Failed("old")])
    def test_nor_is_a_plain_success_of_the_lost_one_counted(self, ended, caplog, lost_outcome):
        current = claim_one()
        lost = claimed_before(current)
        settled = settling.settle([(lost, lost_outcome), (current, Succeeded())], now=LATER)
        assert (settled.written, settled.lost) == ({current.id}, {current.id})
        assert ended == [current]
        assert caplog.text.count("lease lost (attempt 1)") == 1
        assert stored(current).status == Status.SUCCEEDED

    def test_a_settle_and_a_rescue_at_the_same_moment_count_once(self):
        record = claim_one(now=database_clock())
        after_lease = record.started_at + timedelta(days=1)
        settled, rescued = at_once(
            lambda: len(settling.settle([(record, Succeeded())]).written), lambda: rescuing.rescue(now=after_lease)
        )
        assert settled + rescued == 1
        assert stored(record).status in (Status.SUCCEEDED, Status.WAITING)
        assert Attempt.objects.count() == 1

    def test_the_late_result_of_a_rescued_attempt_is_a_lost_lease_and_no_repetition(self):
        record = claim_one()
        rescuing.rescue(now=database_start() + timedelta(days=1))
        before = row(record)
        assert settling.settle([(record, Succeeded())], now=LATER).lost == {record.id}
        assert row(record) == before


class TestRenewal:
    def test_only_the_own_lease_under_the_own_token_is_owned_still(self):
        mine, others = claim_one(), claim_one()
        held = {mine.id: mine.lease_token, others.id: others.lease_token}
        before = stored(others).lease_expires_at
        assert claiming.renew(held, worker_id=mine.worker_id, now=LATER).owned == {mine.id}
        assert stored(mine).lease_expires_at == LATER + timedelta(seconds=60)
        assert stored(others).lease_expires_at == before
        assert not claiming.renew({mine.id: uuid4()}, worker_id=mine.worker_id, now=LATER).owned
        BacklogRecord.objects.filter(pk=mine.id).update(cancel_requested_at=NOON)
        assert claiming.renew(held, worker_id=mine.worker_id, now=LATER).cancelled == {mine.id}
        assert not claiming.renew({mine.id: uuid4()}, worker_id=mine.worker_id, now=LATER).cancelled
        settling.settle([(mine, Released())], now=LATER)
        assert not claiming.renew(held, worker_id=mine.worker_id, now=LATER).owned


class TestRescue:
    def test_an_expired_lease_counts_as_a_failure_with_an_outcome_of_its_own(self):
        policy = make_retry_policy(parameters={"base": 300})
        record = claim_one(now=database_clock(), retry_policy=policy)
        now = record.started_at + timedelta(days=1)
        claiming.renew({record.id: record.lease_token}, worker_id=record.worker_id, now=now - timedelta(seconds=59))
        assert rescuing.rescue(now=now) == 0
        now += timedelta(seconds=2)
        assert rescuing.rescue(now=now) == 1
        rescued = stored(record)
        assert (rescued.status, rescued.waiting_for) == (Status.WAITING, WaitingFor.BACKOFF)
        assert (rescued.failures, rescued.last_failure_at) == (1, now)
        assert rescued.run_after == now + timedelta(seconds=300)
        attempt = Attempt.objects.get()
        assert (attempt.outcome, attempt.worker_id) == (AttemptOutcome.RESCUED, record.worker_id)
        assert "worker was lost" in attempt.error

    def test_nothing_is_rescued_within_one_lease_of_the_start_of_the_database(self):
        record = claim_one()  # expired long before the server of this test was started
        started_at = database_start()
        assert rescuing.rescue(now=started_at + timedelta(seconds=59)) == 0
        assert stored(record).status == Status.RUNNING
        assert rescuing.rescue(now=started_at + timedelta(seconds=61)) == 1

    def test_one_that_cannot_be_settled_is_set_aside_for_a_minute_and_named_once(self, monkeypatch, caplog):
        def refuse(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
            if record.id == bad.id:
                raise ValueError("an odd subject")

        monkeypatch.setitem(registry.kinds, "test", Kind("test", after_settle=one_by_one(refuse)))
        monkeypatch.setattr(rescuing, "_set_aside", SetAside())
        bad, now = claim_one(), database_clock() + timedelta(days=1)
        for second in range(3):
            claim_one()
            assert rescuing.rescue(now=now + timedelta(seconds=second)) == 1
        rescuing.rescue(now=now + timedelta(minutes=1))
        messages = [record.getMessage() for record in caplog.records if bad.subject in record.getMessage()]
        assert "an odd subject" in messages[0]
        assert len(messages) == len(set(messages)) == 2
        assert stored(bad).status == Status.RUNNING
        assert f"(record {bad.id})" in finding("expired_leases", now=now + timedelta(minutes=9)).what
        monkeypatch.setitem(registry.kinds, "test", Kind("test"))
        assert rescuing.rescue(now=now + timedelta(minutes=3)) == 1

    def test_rescues_on_many_hosts_at_once_rescue_each_record_once(self):
        now = database_clock() + timedelta(days=1)
        records = [claim_one() for _ in range(12)]
        assert sum(at_once(*[lambda: rescuing.rescue(now=now)] * 4)) == 12
        assert set(BacklogRecord.objects.values_list("failures", flat=True)) == {1}
        assert Attempt.objects.count() == len(records)


def test_a_settled_attempt_names_its_worker_queue_and_times_and_the_last_error_stays_for_people_to_read():
    record = claim_one(attempt=2)
    settling.settle([(record, Failed("disk full"))], now=LATER)
    attempt = Attempt.objects.get()
    assert (attempt.record_id, attempt.number, attempt.worker_id) == (record.id, 3, record.worker_id)
    assert (attempt.queue, attempt.error) == ("default", "disk full")
    assert (attempt.started_at, attempt.ended_at) == (NOON, LATER)
    BacklogRecord.objects.update(status=Status.READY, waiting_for=None)
    settling.settle([(claim_again(), Succeeded())], now=LATER)
    assert (stored(record).last_error, stored(record).finished_at) == ("disk full", LATER)


class TestHooks:
    def test_a_hook_that_raises_leaves_every_record_of_the_batch_as_it_was(self, monkeypatch):
        monkeypatch.setattr(registry, "kinds", dict(registry.kinds))
        seen = []

        def raise_at_the_second(record, outcome, now):
            seen.append(stored(record).status)
            if len(seen) == 2:
                raise RuntimeError("assignment is gone")

        registry.add(Kind("test", after_settle=one_by_one(raise_at_the_second)))
        records = [claim_one(), claim_one()]
        before = [row(record) for record in records]
        with pytest.raises(RuntimeError, match="assignment is gone"):
            settling.settle([(record, Succeeded()) for record in records], now=LATER)
        assert seen == [Status.SUCCEEDED, Status.SUCCEEDED]
        assert [row(record) for record in records] == before
        assert not Attempt.objects.exists()


class TestStrays:
    def test_a_claim_whose_commit_was_lost_is_given_back_without_a_failure(self):
        worker = make_worker()
        make_record()
        make_record()
        known, stray = claiming.claim("default", worker_id=worker.pk, limit=2, now=NOON)
        others = claim_one()
        assert rescuing.release_strays(worker_id=worker.pk, known=[known])
        assert stored(stray).status == Status.READY
        assert stored(stray).failures == 0
        assert stored(known).status == stored(others).status == Status.RUNNING
        assert Attempt.objects.get().outcome == AttemptOutcome.RELEASED

    def test_a_stray_of_which_the_worker_still_runs_an_earlier_attempt_is_given_back(self):
        stray = claim_one()
        earlier = stray._replace(lease_token=uuid4())
        assert rescuing.release_strays(worker_id=stray.worker_id, known=[earlier])
        assert stored(stray).status == Status.READY


def database_start() -> datetime:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_postmaster_start_time()")
        return cursor.fetchone()[0]


@pytest.mark.parametrize("outcome", [Failed("a\0b"), Unavailable("a\0b", 60), Failed("name \udcff of a file")])
def test_whatever_a_program_said_is_written_down_as_what_happened(outcome) -> None:
    claimed = claim_one()
    settling.settle([(claimed, outcome)], now=NOON).raise_if_lost()
    wanted = AttemptOutcome.FAILED if isinstance(outcome, Failed) else AttemptOutcome.UNAVAILABLE
    assert Attempt.objects.get(record_id=claimed.id).outcome == wanted
