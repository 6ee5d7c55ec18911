"""The fleets that the bench makes: that they are what the parts say they are."""

import pytest

from bench.fleets import arrivals, decisions, making, sweep
from jobs import tick
from jobs.models import BacklogRecord, Throttle
from jobs.states import Status, WaitingFor
from sources import planning
from sources.agents import tokens
from sources.models import Assignment

pytestmark = pytest.mark.django_db

DUE = 100


def ready(queue: str = "availability") -> "list[BacklogRecord]":
    return list(BacklogRecord.objects.filter(status=Status.READY, queue=queue))


class TestAFleetAtAPeriodsStart:
    def test_one_tick_emits_all_of_it(self):
        making.make_fleet(DUE, policies=3, throttled=False)
        assert tick.tick().emitted == DUE
        assert len({(record.rank_day, record.expected_seconds) for record in ready()}) > DUE / 2
        assert {record.priority for record in ready()} == {0, 1, 2}

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
    def test_everybody_is_ready_in_that_order(self, tmp_path):
        sweep.make(absent=4, present=2, behind=1, port=2022, directory=str(tmp_path), connect_timeout=2, bandwidth="1M")
        kinds = [
            Assignment.objects.get(pk=record.payload["assignment"]).source.kind
            for record in sorted(ready(), key=lambda record: record.pk)
        ]
        assert kinds == ["local", "sftp", "sftp", "local", "sftp", "sftp", "local"]


class TestArrivalsToBe:
    def test_silent_sources_wait_for_their_re_check_and_a_check_in_ends_that(self, tmp_path):
        found = arrivals.make(2, str(tmp_path))
        waiting = BacklogRecord.objects.filter(status=Status.WAITING, waiting_for=WaitingFor.RECHECK)
        assert waiting.count() == 2
        assignment_id, token = found[0]
        agent = tokens.authenticate(token)
        assert agent is not None
        assert planning.check_in(agent.source) == 1
        arrived = BacklogRecord.objects.filter(status=Status.READY, queue=planning.ARRIVALS)
        assert [record.payload["assignment"] for record in arrived] == [assignment_id]
