"""The backlog in virtual time, and what is measured with it: poison beside good records, and a service that is away.

Nothing here depends on how fast the machine is: the instants are computed.
"""

import logging
from dataclasses import replace
from datetime import timedelta
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from bench.contestants.virtual import PRESETS
from bench.fleets import outage, poison
from bench.fleets.outage import Outage
from bench.fleets.poison import Load
from bench.parts.outage import is_called_less, recovered_by
from bench.virtual import DAY, HOUR, MINUTE, START, Backlog, Tried, instant
from jobs import conf
from jobs.backlog import NewRecord, enqueue
from jobs.handlers import Kind, registry
from jobs.models import Attempt, BacklogRecord, Breaker, Decision, RetryPolicy, Sweep
from jobs.order import in_claim_order
from jobs.outcomes import Claimed, Failed, Outcome, Succeeded
from jobs.states import Status
from schedules import providers
from schedules.models import Schedule
from tests.bench.test_bench_command import LONGEST_SECONDS, contestants, directory, measure
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


def fail(record: Claimed, at: float) -> tuple[float, Outcome]:
    return TEN, Failed("wrong for ever")


def fail_once(record: Claimed, at: float) -> tuple[float, Outcome]:
    return TEN, Succeeded() if record.failures else Failed("a passing fault")


def put(backlog: Backlog, at: float, *subjects: str, **values: Any) -> None:
    records = [NewRecord(subject) for subject in subjects]
    backlog.put(at, lambda now: enqueue("bench", records, now=now, **values))


def starts(backlog: Backlog) -> list[tuple[str, float]]:
    return sorted(((tried.subject, tried.start) for tried in backlog.tried), key=lambda start: start[::-1])


def most_at_once(tried: list[Tried]) -> int:
    """How many attempts ran at the same instant, at most. One that ends where another begins is no overlap."""
    changes = sorted([(each.start, 1) for each in tried] + [(each.end, -1) for each in tried])
    running, most = 0, 0
    for _, change in changes:
        running += change
        most = max(most, running)
    return most


class TestVirtualTime:
    def test_comes_out_as_computed_by_hand(self):
        every_30_s = make_retry_policy(algorithm="constant", parameters={"base": 30})
        backlog = Backlog(2, fail_once)
        put(backlog, 0, "a", "b", "c", retry_policy_id=every_30_s.pk)
        backlog.run(HOUR)
        assert starts(backlog) == [("a", 0), ("b", 0), ("c", 10), ("a", 40), ("b", 40), ("c", 50)]
        assert [tried.end - tried.start for tried in backlog.tried] == [TEN] * 6

    def test_what_waits_is_noticed_at_the_next_look(self):
        every_30_s = make_retry_policy(algorithm="constant", parameters={"base": 30})
        backlog = Backlog(1, fail_once, tick_every=7)
        put(backlog, 0, "a", retry_policy_id=every_30_s.pk)
        backlog.run(HOUR)
        assert starts(backlog) == [("a", 0), ("a", 42)]

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

    def test_no_more_run_at_once_than_there_are_units_and_none_stands_idle(self):
        backlog = Backlog(3, lambda record, at: (5.0 + record.id % 4, Succeeded()))
        put(backlog, 0, *(f"{number}" for number in range(50)))
        backlog.run(HOUR)
        assert most_at_once(backlog.tried) == 3
        by_unit = [[t for t in backlog.tried if t.unit == unit] for unit in range(3)]
        assert all(next_.start == each.end for tried in by_unit for each, next_ in pairwise(tried))

    def test_what_arrives_when_a_unit_gets_free_has_just_missed_it(self):
        backlog = Backlog(1, succeed)
        put(backlog, 0, "a", "b")
        put(backlog, 10, "first in line", priority=1)
        backlog.run(HOUR)
        assert starts(backlog) == [("a", 0), ("b", 10), ("first in line", 20)]

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

    def test_sweeps_come_on_their_grid(self):
        backlog = Backlog(1, fail_once, sweeps=True)
        put(backlog, 3 * MINUTE, "a", retry_policy_id=preset("progressive").pk)
        backlog.run(HOUR)
        assert starts(backlog) == [("a", 3 * MINUTE), ("a", 5 * MINUTE)]

    def test_chance_is_the_same_for_the_same_seed_and_another_for_another(self):
        def waits(seed: int) -> list[tuple[str, float]]:
            backlog = Backlog(2, fail, seed=seed)
            put(backlog, 0, "a", "b", "c", retry_policy_id=preset("exponential, full jitter").pk)
            backlog.run(2 * HOUR)
            found = starts(backlog)
            poison.empty()
            return found

        assert waits(1) == waits(1) != waits(2)


SMALL = Load(poison=300, batches=2)


@cache
def waits_without_poison(within_a_day: bool) -> tuple[float, float]:
    """Mean and p99, in seconds: the retry policy has no part in it."""
    told = poison.figures(replace(SMALL, poison=0, within_a_day=within_a_day), preset("fibonacci, a day at most"))
    poison.empty()
    return told.mean, told.p99


@pytest.mark.slow
class TestPoison:
    def test_a_batch_waits_for_its_own_records_only(self):
        told = poison.figures(
            Load(poison=0, batches=1, batch=32, trickle=DAY, units=16), preset("fibonacci, a day at most")
        )
        assert (told.mean, told.p99) == (poison.ATTEMPT / 2, poison.ATTEMPT)

    @pytest.mark.parametrize("name", PRESETS)
    def test_good_records_wait_no_longer_beside_it_within_a_day(self, name):
        mean, p99 = waits_without_poison(True)
        told = poison.figures(replace(SMALL, within_a_day=True), preset(name))
        assert told.mean <= AT_MOST * mean
        assert told.p99 <= AT_MOST * p99
        assert told.unfinished == 0
        assert told.attempts > SMALL.poison

    @pytest.mark.parametrize("name", PRESETS)
    def test_good_records_wait_no_longer_beside_it_across_midnight(self, name):
        mean, p99 = waits_without_poison(False)
        told = poison.figures(SMALL, preset(name))
        assert told.mean <= AT_MOST * mean
        assert told.p99 <= AT_MOST * p99


class TestAnExhaustedSweep:
    def test_warns(self, caplog):
        with caplog.at_level(logging.WARNING, "jobs.retries.sweeps"):
            told = poison.figures(replace(SMALL, batches=1, max_records=10), preset("progressive"))
        assert told.left_some == sum("SWEEP_MAX_RECORDS" in said for said in caplog.messages) > 0
        assert Sweep.objects.filter(left_some=True).exists()

    def test_one_that_takes_all_does_not(self):
        told = poison.figures(replace(SMALL, batches=1), preset("progressive"))
        assert told.left_some == 0
        assert not Sweep.objects.filter(left_some=True).exists()

    @pytest.mark.parametrize(("max_records", "done"), [(60, 1), (10, 0)])
    def test_leaves_what_is_older_than_the_poison_that_fills_it(self, max_records, done):
        backlog = Backlog(
            50,
            lambda r, at: fail_once(r, at) if r.subject == "old" else fail(r, at),
            sweeps=True,
            max_records=max_records,
        )
        progressive = preset("progressive").pk
        put(backlog, 0, "old", retry_policy_id=progressive)
        put(backlog, 1, *(f"poison {number}" for number in range(50)), retry_policy_id=progressive)
        backlog.run(2 * HOUR)
        assert BacklogRecord.objects.filter(status=Status.SUCCEEDED).count() == done
        assert Decision.objects.filter(what="sweep left some").exists() == (not done)


GROWING = [name for name in PRESETS if name not in ("every 5 minutes", "progressive")]


@pytest.mark.slow
class TestAnOutage:
    @pytest.mark.parametrize("name", GROWING)
    def test_what_is_away_is_called_less_and_less(self, name):
        told = outage.run(Outage(12 * HOUR, jobs=20), preset(name))
        assert is_called_less(told.calls, 4)
        assert sum(told.calls[8:]) < sum(told.calls[:4]) / 2
        assert told.charged == sum(told.calls)
        assert len(told.recovered) == 20

    @pytest.mark.parametrize("name", ["every 5 minutes", "progressive"])
    def test_two_of_them_call_as_often_as_ever_for_a_day(self, name):
        told = outage.run(Outage(4 * HOUR, jobs=5), preset(name))
        assert told.calls[1:] == pytest.approx([60] * 3, abs=5)
        assert is_called_less(told.calls, 1)

    def test_the_progressive_schedule_calls_less_from_the_second_day_on(self):
        told = outage.run(Outage(30 * HOUR, jobs=1), preset("progressive"))
        assert sum(told.calls[:24]) == pytest.approx(288, abs=2)
        assert told.calls[25:] == [1] * 5

    @pytest.mark.parametrize("name", ["every 5 minutes", "fibonacci, a day at most"])
    def test_a_breaker_lets_nothing_through_but_trials(self, name):
        told = outage.run(Outage(6 * HOUR, jobs=30, guarded=True, units=5), preset(name))
        trials = Decision.objects.filter(what="trial", at__lt=instant(6 * HOUR)).count()
        assert sum(told.calls) <= 5 + trials
        assert told.charged < conf.breaker_after()
        assert max(told.calls[1:]) <= HOUR / conf.breaker_longest_seconds() + 1
        assert len(told.recovered) == 30
        assert told.recovered[-1] <= conf.breaker_longest_seconds() + 30 / 5 * outage.CALL + MINUTE
        assert not Breaker.objects.get().is_open


class TestWhatIsTold:
    @pytest.mark.parametrize(
        ("calls", "window", "less"),
        [
            ([100, 50, 50, 10], 1, True),
            ([0, 100, 0, 50], 2, True),
            ([100, 100, 103, 99], 1, True),
            ([100, 50, 150], 1, False),
            ([0, 100], 1, False),
        ],
    )
    def test_fewer_calls_are_fewer_but_for_chance(self, calls, window, less):
        assert is_called_less(calls, window) is less

    def test_a_share_that_never_was_done_has_no_instant(self):
        assert recovered_by([1.0, 2.0], 4, 0.25) == 2.0
        assert recovered_by([1.0, 2.0], 4, 0.5) is None


@pytest.mark.slow
@pytest.mark.timeout(LONGEST_SECONDS + 60)
def test_both_parts_tell_each_preset_and_leave_nothing_behind(directory):
    found = measure(directory, "poison", "outage", "--quick", "--poison", "20")
    assert found["failures"] == []
    assert {*PRESETS, "no poison", "progressive, 1 a sweep"} == contestants(found, "wait for the start, mean")
    assert {*PRESETS, "any, with a breaker"} == contestants(found, "1 day, 40 jobs: calls in all")
    assert {ratio["target"] for ratio in found["ratios"]} == {"≤ 1.10", ""}
    assert list(directory.iterdir()) == []
