"""The facts that a check-in stores, the order of its steps, and that it waits behind no question."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord, Decision
from jobs.states import Status, WaitingFor
from proving.bench.fleets.statements import counted
from sources.agents import checkins
from sources.agents.checkins import Facts, check_in, clock_skew, reachable_at
from sources.models import Assignment, Source
from sources.planning import AVAILABILITY, BACKUPS, emit_due
from tests.factories import NOON
from tests.sources.factories import make_assignment, make_source, policy_into, record_of
from tests.sources.hosts import another_address
from tests.sources.strangers import black_hole
from tests.sources.worker_process import worker_process
from tests.waiting import eventually

SENDER = "192.0.2.7"


def test_it_is_reachable_at_the_senders_address_first_and_at_those_of_single_other_hosts(settings: Any) -> None:
    named = ["198.51.100.4", "192.0.2.7", "2001:DB8:0::1", "2001:db8::1"]
    assert reachable_at(named, SENDER) == ["192.0.2.7", "198.51.100.4", "2001:db8::1"], "each once"
    loopback = ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"]
    local = ["169.254.169.254", "fe80::1", "fe80::1%eth0", "224.0.0.1", "ff02::1"]
    nowhere = ["0.0.0.0", "0.1.2.3", "::", "255.255.255.255", "240.0.0.1"]
    assert reachable_at([*loopback, *local, *nowhere], SENDER) == [SENDER]
    private = ["10.1.2.3", "192.168.0.9", "100.64.0.1", "fd00::5"]
    assert reachable_at(private, SENDER) == [SENDER, *private]
    assert reachable_at(["2001:db8::1%;touch x"], "") == ["2001:db8::1"]  # "": over a socket of the file system
    assert reachable_at([], "::ffff:192.0.2.7") == ["192.0.2.7"]
    assert len(reachable_at([f"10.0.0.{n}" for n in range(1, 31)], SENDER)) == 20
    # loopback counts for a request from there, and may be a proxy's
    assert reachable_at(["127.0.5.1"], "127.0.0.1") == ["127.0.5.1", "127.0.0.1"]
    assert reachable_at([], "127.0.5.9") == ["127.0.5.9"]
    assert reachable_at([], "::1") == ["::1"]
    assert reachable_at(["169.254.1.1", "0.0.0.0"], "127.0.0.1") == ["127.0.0.1"]
    settings.DEBUG = True
    assert reachable_at(["127.0.5.1"], SENDER) == [SENDER, "127.0.5.1"]
    with pytest.raises(ValueError, match="IP"):
        reachable_at(["-x"], SENDER)


def test_the_clock_skew_is_by_how_much_the_sender_is_ahead_and_bounded() -> None:
    east = timezone(timedelta(hours=14))
    for sent_at, skew in (
        (NOON.astimezone(east) + timedelta(seconds=90), 90),
        (NOON - timedelta(seconds=90), -90),
        (None, None),
        (datetime.min.replace(tzinfo=UTC), -1e9),
        (datetime.max.replace(tzinfo=UTC), 1e9),
    ):
        assert clock_skew(sent_at, NOON) == skew


@pytest.mark.django_db
class TestCheckIn:
    def test_the_given_source_has_the_stored_facts_too_and_nothing_but_these_is_written(self) -> None:
        source = make_source(name="before")
        Source.objects.filter(pk=source.pk).update(name="renamed meanwhile", address="10.0.0.1")
        facts = Facts("laptop", ("10.0.0.5",), on_battery=True, metered=True, sent_at=NOON)
        checked_in = check_in(source, facts, SENDER, NOON)
        stored = Source.objects.get(pk=source.pk)
        for field in ("checked_in_at", "hostname", "addresses", "on_battery", "metered", "clock_skew"):
            assert getattr(stored, field) == getattr(source, field)
        assert (stored.checked_in_at, stored.addresses) == (NOON, [SENDER, "10.0.0.5"])
        assert (checked_in.source, checked_in.moved, checked_in.now) == (source, 0, NOON)
        assert (stored.name, stored.address) == ("renamed meanwhile", "10.0.0.1")

    def test_a_paused_source_is_written_down_and_logged(self) -> None:
        assignment = make_assignment(None, make_source(paused_at=NOON))
        assert check_in(assignment.source, Facts(), SENDER, NOON).moved == 0
        assert Source.objects.get().checked_in_at == NOON
        assert Decision.objects.filter(what="checked in").count() == 1

    def test_a_source_that_was_deleted_meanwhile_is_gone(self) -> None:
        source = make_source()
        Source.objects.all().delete()
        with pytest.raises(checkins.SourceGone):
            check_in(source, Facts(), SENDER, NOON)
        assert not Decision.objects.exists()

    def test_one_that_says_nothing_new_costs_one_statement(self) -> None:
        assignment = make_assignment()
        check_in(assignment.source, Facts(), SENDER, NOON)
        BacklogRecord.objects.update(status=Status.WAITING, waiting_for=WaitingFor.WINDOW, queue="availability")
        with counted() as sent:
            check_in(assignment.source, Facts(), SENDER, NOON)
        assert [statement.split()[0] for statement in sent] == ["WITH"]


class TestTheLog:
    """An agent announces its source every few minutes: only what is news becomes a line."""

    pytestmark = pytest.mark.django_db(transaction=True)

    def lines(self) -> int:
        return Decision.objects.filter(what="checked in").count()

    def say(self, source: Source, now: datetime, **facts: Any) -> None:
        source.refresh_from_db()
        check_in(source, Facts(reason="timer", **facts), "192.0.2.7", now)

    def test_another_address_a_battery_or_what_moves_a_record_is_news_and_the_same_again_is_none(self) -> None:
        source = make_source()
        for minutes in range(5):
            self.say(source, NOON + timedelta(minutes=minutes))
        assert self.lines() == 1
        self.say(source, NOON, on_battery=True)
        self.say(source, NOON, on_battery=True, addresses=("192.0.2.8",))
        assert self.lines() == 3
        make_assignment(source=source)
        for minutes in (5, 10):
            self.say(source, NOON + timedelta(minutes=minutes), on_battery=True, addresses=("192.0.2.8",))
        assert self.lines() == 4


PLACES, HANGING = 10, 60
CONNECT_TIMEOUT = 60.0
AT_ONCE = 30.0
"""Half of what a place that hangs is taken for. The bench has the milliseconds."""


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_it_waits_behind_no_question(tmp_path: Path) -> None:
    for name in ("repository", "files"):
        (tmp_path / name).mkdir()
    policy = policy_into(tmp_path / "repository", "vault", connect_timeout=CONNECT_TIMEOUT)
    with black_hole() as port:
        frozen = Source.objects.bulk_create(
            Source(name=f"frozen {number}", kind="sftp", address=another_address(), port=port, path="/")
            for number in range(HANGING)
        )
        Assignment.objects.bulk_create(Assignment(source=source, policy=policy) for source in frozen)
        emit_due()
        with worker_process(f"{AVAILABILITY}:{PLACES},{BACKUPS}:1", tmp_path) as worker:
            eventually(lambda: BacklogRecord.objects.filter(status=Status.RUNNING).count() >= PLACES)
            back = make_assignment(policy, make_source(path=str(tmp_path / "files")))
            emit_due()
            record = record_of(back)
            check_in(back.source, Facts(), "192.0.2.7", database_clock())

            def has_begun() -> bool:
                assert worker.poll() is None, (tmp_path / "worker.log").read_text()
                running = BacklogRecord.objects.filter(pk=record.pk, status=Status.RUNNING, queue=BACKUPS)
                return running.exists() or Attempt.objects.filter(record=record, queue=BACKUPS).exists()

            eventually(has_begun, seconds=AT_ONCE)
