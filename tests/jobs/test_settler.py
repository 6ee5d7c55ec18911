"""The settler writes every result, however the database or a hook behaves."""

from collections.abc import Iterator
from datetime import timedelta
from queue import SimpleQueue

import pytest
from django.db import connection
from django.db.utils import OperationalError

from jobs import rescuing, settling
from jobs.handlers import Kind, one_by_one, registry
from jobs.models import Attempt, BacklogRecord
from jobs.outcomes import ClaimedRecord, Succeeded
from jobs.states import Status
from jobs.worker import settler as settler_module
from jobs.worker.settler import Settler
from tests.factories import NOON, claim_new
from tests.threads import another_connection
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db(transaction=True)


class Listening(Settler):
    """Keeps what it has settled."""

    def __init__(self, batch: int = settler_module.BATCH) -> None:
        self.batches: SimpleQueue[list[ClaimedRecord]] = SimpleQueue()
        super().__init__(self.batches.put, batch)


@pytest.fixture
def settler(monkeypatch) -> Iterator[Listening]:
    monkeypatch.setattr(settler_module, "TRY_AGAIN_AFTER_SECONDS", 0.01)
    settler = Listening()
    yield settler
    if settler.is_alive():
        settler.end(PATIENCE)


def statuses() -> list[int]:
    return list(BacklogRecord.objects.order_by("pk").values_list("status", flat=True))


class Away:
    """`settling.settle` of a database that is away for the first few calls."""

    def __init__(self, calls: int, then_loses_the_answer: bool = False) -> None:
        self.left, self.loses_the_answer = calls, then_loses_the_answer
        self.settle = settling.settle

    def __call__(self, results, **more):
        self.left -= 1
        if self.left >= 0:
            if self.loses_the_answer:
                self.settle(results, **more)
            raise OperationalError("server closed the connection unexpectedly")
        return self.settle(results, **more)


def test_more_results_than_a_batch_are_settled_in_several():
    settler = Listening(2)
    for record in claim_new(5):
        settler.add(record, Succeeded())
    settler.start()
    settler.end(PATIENCE)
    assert [len(settler.batches.get_nowait()) for _ in range(3)] == [2, 2, 1]


class TestADatabaseThatIsAway:
    @pytest.mark.parametrize("loses_the_answer", [False, True], ids=["before the commit", "after the commit"])
    def test_loses_no_result_and_writes_none_twice(self, settler, monkeypatch, loses_the_answer):
        monkeypatch.setattr(settling, "settle", Away(3, loses_the_answer))
        records = claim_new(5)
        for record in records:
            settler.add(record, Succeeded())
        settler.start()
        settled = settler.batches.get(timeout=PATIENCE)
        assert settled == records
        assert statuses() == [Status.SUCCEEDED] * 5
        assert Attempt.objects.count() == 5

    def test_is_not_waited_for_for_ever_at_the_end(self, settler, monkeypatch):
        monkeypatch.setattr(settling, "settle", Away(10**9))
        settler.add(claim_new(1)[0], Succeeded())
        settler.start()
        settler.end(0.05)
        settler.join(PATIENCE)  # it ends by itself, however slow the machine is
        assert not settler.is_alive()
        assert statuses() == [Status.RUNNING]


def test_a_transaction_that_the_server_ended_since_it_was_idle_loses_no_result(settler, monkeypatch):
    idled: list[int] = []

    def idle(record, outcome, now):
        if len(idled) == 3:
            return
        with connection.cursor() as cursor, another_connection() as other:
            cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', '10', true), pg_backend_pid()")
            idled.append(cursor.fetchone()[1])
            other.autocommit = True
            lives = "SELECT FROM pg_stat_activity WHERE pid = %s"
            eventually(lambda: not other.execute(lives, idled[-1:]).fetchall())
            cursor.execute("SELECT 1")

    monkeypatch.setattr(registry, "kinds", dict(registry.kinds))
    registry.add(Kind("test", after_settle=one_by_one(idle)))
    settler.add(claim_new(1)[0], Succeeded())
    settler.start()
    settler.batches.get(timeout=PATIENCE)
    assert len(idled) == 3
    assert statuses() == [Status.SUCCEEDED]


class TestAHookThatRaises:
    @pytest.fixture(autouse=True)
    def raising(self, monkeypatch):
        def raise_for_the_first(record, outcome, now):
            if record.id == min(BacklogRecord.objects.values_list("pk", flat=True)) and isinstance(outcome, Succeeded):
                raise RuntimeError("no room for the result")

        monkeypatch.setattr(registry, "kinds", dict(registry.kinds))
        registry.add(Kind("test", after_settle=one_by_one(raise_for_the_first)))

    def test_costs_its_own_record_a_failure_and_the_others_nothing(self, settler):
        for record in claim_new(3):
            settler.add(record, Succeeded())
        settler.start()
        settler.batches.get(timeout=PATIENCE)
        assert statuses() == [Status.WAITING, Status.SUCCEEDED, Status.SUCCEEDED]
        assert "no room for the result" in BacklogRecord.objects.order_by("pk").first().last_error


def test_a_batch_is_bounded_and_the_end_writes_what_was_added_before_it(settler):
    settler._most = 4
    for record in claim_new(10):
        settler.add(record, Succeeded())
    settler.start()
    settler.end(PATIENCE)
    assert not settler.is_alive()
    assert [len(settler.batches.get(timeout=PATIENCE)) for _ in range(3)] == [4, 4, 2]
    assert statuses() == [Status.SUCCEEDED] * 10


def test_a_result_of_a_lost_lease_is_dropped_and_its_place_is_free(settler):
    [record] = claim_new(1)
    rescuing.rescue(now=NOON + timedelta(days=10_000))
    settler.start()
    settler.add(record, Succeeded())
    assert settler.batches.get(timeout=PATIENCE) == [record]
    assert statuses() == [Status.WAITING]
