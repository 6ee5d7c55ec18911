"""The backlog in virtual time, and what is measured with it: poison beside good records, and a service that is away.

Nothing here depends on how fast the machine is: the instants are computed.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from jobs import conf
from jobs.backlog import NewRecord, enqueue
from jobs.handlers import Kind, registry
from jobs.models import Attempt, Breaker, Decision, RetryPolicy
from jobs.outcomes import ClaimedRecord, Failed, Outcome, Succeeded
from proving.bench.fleets import outage, poison
from proving.bench.fleets.outage import Outage
from proving.bench.fleets.poison import Load
from proving.bench.parts.outage import is_called_less
from proving.bench.virtual import HOUR, MINUTE, Backlog, instant
from tests.factories import install_presets, make_retry_policy

pytestmark = pytest.mark.django_db

TEN = 10.0
AT_MOST = 1.10


@pytest.fixture(autouse=True)
def _kind() -> Any:
    kinds = dict(registry.kinds)
    registry.add(Kind("bench", home_queue="bench"))
    yield
    registry.kinds = kinds


@pytest.fixture(autouse=True)
def _presets(db: None) -> None:
    install_presets()


def preset(name: str) -> RetryPolicy:
    return RetryPolicy.objects.get(name=name)


def succeed(record: ClaimedRecord, at: float) -> tuple[float, Outcome]:
    return TEN, Succeeded()


def fail_once(record: ClaimedRecord, at: float) -> tuple[float, Outcome]:
    return TEN, Succeeded() if record.failures else Failed("a passing fault")


def put(backlog: Backlog, at: float, *subjects: str, **values: Any) -> None:
    records = [NewRecord(subject) for subject in subjects]
    backlog.put(at, lambda now: enqueue("bench", records, now=now, **values))


def starts(backlog: Backlog) -> list[tuple[str, float]]:
    return sorted(((tried.subject, tried.start) for tried in backlog.tried), key=lambda start: start[::-1])


class TestVirtualTime:
    def test_comes_out_as_computed_by_hand(self):
        every_30_s = make_retry_policy(algorithm="constant", parameters={"base": 30})
        backlog = Backlog(2, fail_once)
        put(backlog, 0, "a", "b", "c", retry_policy_id=every_30_s.pk)
        backlog.run(HOUR)
        assert starts(backlog) == [("a", 0), ("b", 0), ("c", 10), ("a", 40), ("b", 40), ("c", 50)]
        assert [tried.end - tried.start for tried in backlog.tried] == [TEN] * 6
        first = Attempt.objects.order_by("pk")[0]
        assert (first.started_at, first.ended_at) == (instant(0), instant(10))


SMALL = Load(poison=300, batches=2)


@cache
def waits_without_poison(within_a_day: bool) -> tuple[float, float]:
    """Mean and p99, in seconds: the retry policy has no part in it."""
    found = poison.figures(replace(SMALL, poison=0, within_a_day=within_a_day), preset("fibonacci, a day at most"))
    poison.empty()
    return found.mean, found.p99


@pytest.mark.slow
class TestPoison:
    @pytest.mark.parametrize("name", ["every 5 minutes", "progressive"])
    def test_good_records_wait_no_longer_beside_it_within_a_day(self, name):
        mean, p99 = waits_without_poison(True)
        found = poison.figures(replace(SMALL, within_a_day=True), preset(name))
        assert found.mean <= AT_MOST * mean
        assert found.p99 <= AT_MOST * p99
        assert found.unfinished == 0
        assert found.attempts > SMALL.poison


@pytest.mark.slow
class TestAnOutage:
    def test_what_is_away_is_called_less_and_less(self):
        found = outage.run(Outage(12 * HOUR, jobs=20), preset("fibonacci, a day at most"))
        assert is_called_less(found.calls, 4)
        assert sum(found.calls[8:]) < sum(found.calls[:4]) / 2
        assert found.charged == sum(found.calls)
        assert len(found.recovered) == 20

    def test_a_breaker_lets_nothing_through_but_trials(self):
        found = outage.run(Outage(6 * HOUR, jobs=30, guarded=True, units=5), preset("every 5 minutes"))
        trials = Decision.objects.filter(what="trial", at__lt=instant(6 * HOUR)).count()
        assert sum(found.calls) <= 5 + trials
        assert found.charged < conf.breaker_after()
        assert max(found.calls[1:]) <= HOUR / conf.breaker_longest_seconds() + 1
        assert len(found.recovered) == 30
        assert found.recovered[-1] <= conf.breaker_longest_seconds() + 30 / 5 * outage.CALL + MINUTE
        assert not Breaker.objects.get().is_open
