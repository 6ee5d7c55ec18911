"""An idle worker sleeps on LISTEN and is woken by NOTIFY; its poll plays no part here."""

from collections.abc import Iterator
from itertools import takewhile
from uuid import uuid4

import pytest
from django.db import connection, transaction

from jobs import backlog, tick, wakeups
from jobs.handlers import Run
from jobs.outcomes import Released
from jobs.states import Status
from jobs.worker.hints import Bell, Hints
from tests.factories import NOON, claim_ready, make_record, settled
from tests.jobs.hearing import hearing
from tests.jobs.held import Held
from tests.threads import another_connection
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db(transaction=True)

LAST_WORD = "that was all"


@pytest.fixture
def bell(monkeypatch) -> Iterator[Bell]:
    """The bell of an idle worker that serves `default` and listens already."""
    monkeypatch.setattr(wakeups, "_last_sent", {})
    bell = Bell()
    with hearing({"default"}, Hints(bell.ring), Held()):
        assert bell.wait(PATIENCE)  # after LISTEN: it may have missed some
        yield bell


def settle() -> None:
    make_record()
    settled(Released())


def promote() -> None:
    make_record(Status.WAITING, run_after=NOON)
    tick.promote(NOON)


class TestBell:
    @pytest.mark.parametrize("makes_ready", [settle, promote])
    def test_rings_for_what_a_tick_or_a_settle_makes_ready(self, bell, makes_ready):
        makes_ready()
        assert bell.wait(PATIENCE)

    def test_rings_no_sooner_than_the_record_can_be_seen(self, bell):
        with transaction.atomic():
            wakeups.notify("default")
            assert not bell.wait(0.1)
        assert bell.wait(PATIENCE)

    @pytest.mark.parametrize("channel", [wakeups.CHANNEL, wakeups.ROOM_CHANNEL, wakeups.CANCEL_CHANNEL])
    def test_rings_after_a_notice_that_no_worker_sends(self, bell, channel):
        for payload in ("", "nonsense", "1,,2", "9" * 7000):
            wakeups._send(channel, payload)
        wakeups.notify_at_once("default")
        assert bell.wait(PATIENCE)

    def test_rings_after_the_connection_of_the_listener_broke(self, bell, monkeypatch):
        monkeypatch.setattr("jobs.worker.listener.RECONNECT_AFTER_SECONDS", 0.05)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE query LIKE 'LISTEN%%' AND datname = current_database()"
            )
            assert cursor.rowcount
        assert bell.wait(PATIENCE)  # it listens again


class TestCancels:
    def test_from_before_it_listened_stop_what_is_held_by_that_lease_alone(self):
        earlier, cancelled, _ = (make_record(subject=name) for name in ("earlier", "cancelled", "untouched"))
        claimed = claim_ready()
        runs = {record.id: Run(record) for record in claimed}
        assert len(runs) == 3
        runs[earlier.pk] = Run(runs[earlier.pk].record._replace(lease_token=uuid4()))
        backlog.cancel([earlier.pk, cancelled.pk])
        with hearing({"default"}, Hints(), Held(*runs.values())):
            assert runs[cancelled.pk].stop.wait(PATIENCE)
        assert {record_id for record_id, run in runs.items() if run.is_stopped} == {cancelled.pk}


class TestLimit:
    @pytest.fixture
    def heard(self, monkeypatch) -> Iterator[list[str]]:
        """The notifications that another connection hears, collected by `drain` up to a last word that follows it."""
        monkeypatch.setattr(wakeups, "_last_sent", {})
        with another_connection() as other:
            other.autocommit = True
            other.execute(f"LISTEN {wakeups.CHANNEL}")

            def drain() -> list[str]:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_notify(%s, %s)", [wakeups.CHANNEL, LAST_WORD])
                payloads = (note.payload for note in other.notifies(timeout=PATIENCE))
                return list(takewhile(LAST_WORD.__ne__, payloads))

            self.drain = drain
            yield

    @pytest.mark.usefixtures("heard")
    def test_lets_the_first_of_many_through_for_each_queue_and_is_not_used_up_by_a_rollback(self, monkeypatch):
        monkeypatch.setattr(wakeups, "QUIET_SECONDS", 3600)
        with transaction.atomic():
            wakeups.notify("default")
            transaction.set_rollback(True)
        for queue in ("default", "backups", "default"):
            wakeups.notify(queue)
        assert self.drain() == ["default", "backups"]

    @pytest.mark.usefixtures("heard")
    def test_ends_after_the_quiet_time(self, monkeypatch):
        monkeypatch.setattr(wakeups, "QUIET_SECONDS", 0.01)
        wakeups.notify("default")

        def notified_again() -> bool:
            before = wakeups._last_sent["default"]
            wakeups.notify("default")
            return wakeups._last_sent["default"] > before

        eventually(notified_again)
        assert self.drain() == ["default", "default"]
