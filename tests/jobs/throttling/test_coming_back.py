"""A worker comes back when the next token is there: not at its poll, and not in a busy loop."""

from dataclasses import replace
from datetime import timedelta

import pytest

from jobs import throttles, wakeups
from jobs.clock import database_clock
from jobs.conf import QueueRule
from jobs.handlers import registry
from jobs.models import Attempt, Throttle
from jobs.throttles import SHORTEST_WAIT_SECONDS
from jobs.worker import claimer, process
from jobs.worker.hints import Hints
from jobs.worker.process import WorkerProcess
from tests.factories import NOON, claim_ready, make_lane, make_record, make_throttle
from tests.jobs.throttling.rated import make_rated, most_above, ready
from tests.waiting import eventually

SECOND = timedelta(seconds=1)


@pytest.mark.django_db
class TestSecondsToToken:
    def test_are_those_until_the_first_whole_one_of_any_lane(self):
        ready(make_rated(0.1, tokens=0.5))
        ready(make_rated(0.5, tokens=0.5))
        assert claim_ready() == []
        assert throttles.seconds_to_token("default", NOON) == pytest.approx(1)
        assert throttles.seconds_to_token("default", NOON + SECOND / 2) == pytest.approx(0.5)

    def test_of_a_lane_are_those_until_the_last_of_its_throttles_has_one(self):
        make_record(lane=make_lane(make_rated(1), make_rated(0.25), make_throttle(5)))
        claim_ready()
        assert throttles.seconds_to_token("default", NOON) == pytest.approx(4)
        assert throttles.seconds_to_token("backups", NOON) is None  # nothing is ready there

    @pytest.mark.parametrize(("most", "claimed"), [(1, 1), (0, 0)], ids=["full", "paused"])
    def test_are_none_where_something_else_is_lacking(self, most, claimed):
        ready(make_rated(1, burst=5, tokens=5, most=most), 3)
        assert len(claim_ready()) == claimed
        assert throttles.seconds_to_token("default", NOON) is None

    def test_are_asked_for_from_the_first_claim_after_a_rate_is_given_until_the_first_one_after_it_is_taken(
        self, monkeypatch
    ):
        throttle = make_throttle(5)
        ready(throttle, 3)
        assert len(claim_ready(limit=1)) == 1
        Throttle.objects.filter(pk=throttle.pk).update(rate=0.1)
        now = database_clock()
        assert claim_ready(now=now) == []
        assert throttles.seconds_to_token("default", now) == pytest.approx(10, abs=1)
        Throttle.objects.filter(pk=throttle.pk).update(rate=None)
        assert len(claim_ready(limit=1)) == 1
        assert throttles.seconds_to_token("default", now) is None
        assert not throttles._rated
        monkeypatch.setattr(throttles, "execute", pytest.fail)  # no throttle has a rate: nothing is asked
        assert throttles.seconds_to_token("default") is None


class TestTokens:
    def test_are_asked_about_twenty_times_a_second_at_most_and_each_queue_by_itself(self, monkeypatch):
        asked: list[str] = []
        clock, answers = [100.0], {"default": 3.0, "quick": 0.001, "backups": None}
        monkeypatch.setattr(claimer, "boot_seconds", lambda: clock[0])
        monkeypatch.setattr(throttles, "seconds_to_token", lambda queue: asked.append(queue) or answers[queue])
        tokens = claimer.Claimer([], None, Hints(), 0)  # type: ignore[arg-type]
        assert tokens.seconds_to_token("default") == 3.0
        for _ in range(1000):
            clock[0] += 0.001
            assert tokens.seconds_to_token("default") in (SHORTEST_WAIT_SECONDS, 3.0)
        assert 18 <= len(asked) <= 21
        assert tokens.seconds_to_token("quick") == SHORTEST_WAIT_SECONDS  # what comes faster is claimed by the dozen
        assert tokens.seconds_to_token("backups") is None


class TestStart:
    @pytest.mark.parametrize(("queue", "loaded"), [("callbacks", ["before the claim"]), ("backups", [])])
    def test_loads_what_delivers_before_anything_is_claimed_or_it_would_go_out_all_at_once(
        self, monkeypatch, queue, loaded
    ):
        done: list[str] = []
        kind = replace(registry.kind("http_callback"), warm_up=lambda: done.append("before the claim"))
        monkeypatch.setattr(registry, "kinds", {kind.name: kind})
        monkeypatch.setattr(process, "prepare_in_this_thread", lambda: None)
        monkeypatch.setattr(WorkerProcess, "register", lambda self: False)
        worker = WorkerProcess([QueueRule(queue, 1)])
        worker.signals = 1
        worker.run()
        assert done == loaded


NEVER_LOOKS = {"WORKER_POLL": "3600"}
"""A worker that begins something was woken for it."""


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_worker_begins_as_many_as_the_rate_says_each_after_its_token_and_at_once_when_a_throttle_is_resumed(workers):
    rate, count = 2.5, 7
    workers(**NEVER_LOOKS)
    throttle = make_rated(rate, 1, tokens=1, at=database_clock())
    ready(throttle, count, kind="quick")
    wakeups.notify_at_once("default")  # its first look may have come before the records
    eventually(lambda: Attempt.objects.count() == count)
    began = sorted(Attempt.objects.values_list("started_at", flat=True))
    assert most_above(began, rate, 1) < 1e-6

    paused = make_throttle(0)
    ready(paused, 3, kind="quick")
    Throttle.objects.filter(pk=paused.pk).update(max_in_flight=2)
    eventually(lambda: Attempt.objects.count() == count + 3)
