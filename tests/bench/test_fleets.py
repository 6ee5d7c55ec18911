"""The fleets that the bench makes: that they are what the parts say they are."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from bench.fleets import arrivals, decisions, making, sweep
from bench.fleets.rows import up_to
from bench.fleets.services import wait_until
from bench.fleets.statements import counted
from bench.processes import ContestantFailed
from jobs import tick
from jobs.models import BacklogRecord, Throttle
from jobs.prepared import execute
from jobs.states import Status, WaitingFor
from jobs.worker.lookahead import shortage
from sources import planning, tokens
from sources.models import Assignment, Source

pytestmark = pytest.mark.django_db

DUE = 100


def ready(queue: str = "availability") -> "list[BacklogRecord]":
    return list(BacklogRecord.objects.filter(status=Status.READY, queue=queue))


class TestManyRows:
    def test_are_like_the_first_but_for_what_is_said(self):
        first = Source.objects.create(name="source 1", kind="local", path="/srv/files")
        up_to(3, first, {"prefix": "laptop "}, name="%(prefix)s || n")
        assert list(Source.objects.values_list("name", "path").order_by("pk")) == [
            ("source 1", "/srv/files"),
            ("laptop 2", "/srv/files"),
            ("laptop 3", "/srv/files"),
        ]

    def test_numbers_are_large_enough_to_be_multiplied_by_large_primes(self):
        up_to(2, Source.objects.create(name="source 1", kind="local"), name="(n * 1000000 * 104729)::text")
        assert Source.objects.filter(name=str(2 * 1_000_000 * 104_729)).exists()


class TestAFleetAtAPeriodsStart:
    def test_every_assignment_is_due_and_none_is_emitted(self):
        making.make_fleet(DUE, policies=3, throttled=False)
        now = timezone.now()
        assert Source.objects.count() == Assignment.objects.count() == DUE
        assert all(assignment.is_due(now) for assignment in Assignment.objects.all())
        assert not BacklogRecord.objects.exists()

    def test_one_tick_emits_all_of_it(self):
        making.make_fleet(DUE, policies=3, throttled=False)
        assert tick.tick().emitted == DUE
        assert len({(record.rank_day, record.expected_seconds) for record in ready()}) > DUE / 2
        assert {record.priority for record in ready()} == {0, 1, 2}

    def test_its_windows_close_within_a_day(self):
        making.make_fleet(DUE, policies=1, throttled=False)
        tick.tick()
        now = timezone.now()
        assert all(now < record.closes_at < now + timedelta(days=1) for record in ready())

    def test_throttled_policies_have_lanes_and_first_backups_lanes_of_their_own(self):
        making.make_fleet(DUE, policies=2, throttled=True)
        tick.tick()
        assert len({record.lane for record in ready()} - {0}) == 4


class TestWhatADecisionLooksAt:
    @pytest.mark.parametrize("lanes", [False, True])
    def test_as_many_are_due_as_were_asked_for(self, lanes):
        decisions.make_due(DUE, lanes=lanes)
        assert len(ready()) == DUE
        assert 0 < sum(record.tried_at is not None for record in ready()) < DUE / 3

    def test_units_are_short_of_sources_that_have_answered(self):
        decisions.make_due(DUE, lanes=False)
        assert shortage("backups", "availability").missing == decisions.UNITS - decisions.BUSY + 8 - decisions.ANSWERED

    def test_one_throttle_is_full_and_half_of_all_waits_behind_it(self):
        decisions.make_due(DUE, lanes=True)
        full = Throttle.objects.get(max_in_flight=decisions.FULL_AT)
        records = BacklogRecord.objects.filter(origin__schedule__throttle=full)
        assert records.running().count() == decisions.FULL_AT
        waiting = records.filter(status=Status.READY, queue="availability")
        assert abs(waiting.count() - DUE / 2) < DUE / 10
        others = BacklogRecord.objects.filter(status=Status.READY, queue="availability").exclude(pk__in=waiting)
        assert min(r.priority for r in waiting) > max(r.priority for r in others)
        assert len({record.lane for record in ready()}) == 4


class TestASweepToBe:
    def test_present_sources_are_spread_evenly_over_the_absent_ones(self):
        order = sweep.mixed(absent=16, present=2)
        assert order.count(True) == 2
        assert order[:9].count(True) == 1
        assert order[0]

    def test_everybody_is_ready_in_that_order(self, tmp_path: Path):
        sweep.make(absent=4, present=2, behind=1, port=2022, directory=str(tmp_path), connect_timeout=2, bandwidth="1M")
        kinds = [
            Assignment.objects.get(pk=record.payload["assignment"]).source.kind
            for record in sorted(ready(), key=lambda record: record.pk)
        ]
        assert kinds == ["local", "sftp", "sftp", "local", "sftp", "sftp", "local"]


class TestArrivalsToBe:
    def test_silent_sources_wait_for_their_re_check_and_a_check_in_ends_that(self, tmp_path: Path):
        found = arrivals.make(2, str(tmp_path))
        waiting = BacklogRecord.objects.filter(status=Status.WAITING, waiting_for=WaitingFor.RECHECK)
        assert waiting.count() == 2
        assignment_id, token = found[0]
        agent = tokens.authenticate(token)
        assert agent is not None
        assert planning.check_in(agent.source) == 1
        arrived = BacklogRecord.objects.filter(status=Status.READY, queue=planning.ARRIVALS)
        assert [record.payload["assignment"] for record in arrived] == [assignment_id]


class TestCountedStatements:
    def test_those_of_the_orm_and_of_the_lease_protocol_count(self):
        with counted() as sent:
            Source.objects.count()
            execute("SELECT %(one)s::int", {"one": 1})
        assert len(sent) == 2

    def test_what_is_sent_afterwards_does_not(self):
        with counted() as sent:
            pass
        Source.objects.count()
        assert sent == []


class TestWaitingForAProcess:
    def test_one_that_has_ended_is_not_waited_for(self):
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        with pytest.raises(ContestantFailed, match="the worker has ended"):
            wait_until(lambda: False, "the worker", process)

    def test_patience_ends(self):
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
            with pytest.raises(ContestantFailed, match="in vain for the worker"):
                wait_until(lambda: False, "the worker", process, longest=0.1)
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.close()
