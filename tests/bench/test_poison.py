"""The backlog in virtual time, and what is measured with it: poison beside good records, and a service that is away.

Nothing here depends on how fast the machine is: the instants are computed.
"""

from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import pytest

from bench.contestants.virtual import PRESETS
from bench.fleets import outage, poison
from bench.fleets.outage import Outage
from bench.fleets.poison import Load
from bench.parts.outage import is_called_less
from bench.virtual import HOUR, MINUTE, START, Backlog, instant
from jobs import conf
from jobs.backlog import NewRecord, enqueue
from jobs.handlers import Kind, registry
from jobs.models import Attempt, BacklogRecord, Breaker, Decision, RetryPolicy
from jobs.order import in_claim_order
from jobs.outcomes import Claimed, Failed, Outcome, Succeeded
from schedules import providers
from schedules.models import Schedule
from tests.bench.test_bench_command import directory
from tests.factories import install_presets, make_record, make_retry_policy

__all__ = ["directory"]

pytestmark = pytest.mark.django_db

TEN = 10.0
AT_MOST = 1.10


@pytest.fixture(autouse=True)
def _kind() -> Any:
    kinds, known = dict(registry.kinds), dict(providers.known)
    registry.add(Kind("bench", home_queue="bench"))
    yield
    registry.kinds, providers.known = kinds, known


@pytest.fixture(autouse=True)
def _presets(db: None) -> None:
    install_presets()


def preset(name: str) -> RetryPolicy:
    return RetryPolicy.objects.get(name=name)


def succeed(record: Claimed, at: float) -> tuple[float, Outcome]:
    return TEN, Succeeded()


def fail_once(record: Claimed, at: float) -> tuple[float, Outcome]:
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

    def test_records_are_tried_in_claim_order(self):
        days = [None, START.date(), START.date() + timedelta(days=1)]
        for number in range(60):  # coprime, so that no key follows from another
            tried_at = START - timedelta(minutes=number % 5) if number % 5 else None
            make_record(
                kind="bench",
                queue="bench",
                inserted_at=START,
                run_after=START,
                subject=f"{number}",
                priority=number % 2,
                rank_day=days[number % 3],
                tried_at=tried_at,
                expected_seconds=number % 7 or None,
            )
        backlog = Backlog(1, succeed)
        backlog.run(HOUR)
        expected = [record.subject for record in in_claim_order(BacklogRecord.objects.all())]
        assert [tried.subject for tried in backlog.tried] == expected

    def test_the_rows_know_no_other_time(self):
        backlog = Backlog(1, succeed)
        put(backlog, 60, "a")
        backlog.run(HOUR)
        record, attempt = BacklogRecord.objects.get(), Attempt.objects.get()
        assert record.inserted_at == attempt.started_at == instant(60)
        assert record.finished_at == attempt.ended_at == instant(70)

    def test_triggers_are_emitted_on_time_however_busy_the_units_are(self):
        emitted: list[float] = []
        providers.add_provider("bench", lambda triggers, now: emitted.append((now - START).total_seconds()) or 0)
        Schedule.objects.create(
            name="hourly", cron="0 * * * *", kind="bench", provider="bench", next_trigger_at=instant(HOUR)
        )
        backlog = Backlog(1, lambda record, at: (5 * HOUR, Succeeded()))
        put(backlog, 0, "long")
        backlog.run(3 * HOUR)
        assert emitted == [HOUR, 2 * HOUR, 3 * HOUR]


SMALL = Load(poison=300, batches=2)


@cache
def waits_without_poison(within_a_day: bool) -> tuple[float, float]:
    """Mean and p99, in seconds: the retry policy has no part in it."""
    told = poison.figures(replace(SMALL, poison=0, within_a_day=within_a_day), preset("fibonacci, a day at most"))
    poison.empty()
    return told.mean, told.p99


@pytest.mark.slow
class TestPoison:
    @pytest.mark.parametrize("name", ["every 5 minutes", "progressive"])
    def test_good_records_wait_no_longer_beside_it_within_a_day(self, name):
        mean, p99 = waits_without_poison(True)
        told = poison.figures(replace(SMALL, within_a_day=True), preset(name))
        assert told.mean <= AT_MOST * mean
        assert told.p99 <= AT_MOST * p99
        assert told.unfinished == 0
        assert told.attempts > SMALL.poison


GROWING = [name for name in PRESETS if name not in ("every 5 minutes", "progressive")]


@pytest.mark.slow
class TestAnOutage:
    @pytest.mark.parametrize("name", ["fibonacci, a day at most"])
    def test_what_is_away_is_called_less_and_less(self, name):
        told = outage.run(Outage(12 * HOUR, jobs=20), preset(name))
        assert is_called_less(told.calls, 4)
        assert sum(told.calls[8:]) < sum(told.calls[:4]) / 2
        assert told.charged == sum(told.calls)
        assert len(told.recovered) == 20

    @pytest.mark.parametrize("name", ["every 5 minutes"])
    def test_a_breaker_lets_nothing_through_but_trials(self, name):
        told = outage.run(Outage(6 * HOUR, jobs=30, guarded=True, units=5), preset(name))
        trials = Decision.objects.filter(what="trial", at__lt=instant(6 * HOUR)).count()
        assert sum(told.calls) <= 5 + trials
        assert told.charged < conf.breaker_after()
        assert max(told.calls[1:]) <= HOUR / conf.breaker_longest_seconds() + 1
        assert len(told.recovered) == 30
        assert told.recovered[-1] <= conf.breaker_longest_seconds() + 30 / 5 * outage.CALL + MINUTE
        assert not Breaker.objects.get().is_open
