"""The queue of backups, run forward many times: which assignments are protected before their period ends, and when each
starts. Pure.

In each run the rest of every source's day and every duration is drawn; units, places in the order, throttles and
closing windows are those of `operations/backlog/starts.py`. A source that is not there is asked again from time to
time, so it is found a while after it has come. One that leaves in mid-backup ends it, and is not tried again then.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from fleet.foreseeing.habits import Habit, Past, Today
from operations.backlog.ends import drawn_seconds
from operations.backlog.starts import QueueState, Runner, Waiter, starts

RUNS = 21
TRIES = 12
"""Draws of the duration of a running backup, until one is longer than it has run."""


@dataclass(frozen=True)
class Contender:
    """A due assignment. `waiter`: its record as it would wait if its source were there; None if it runs. `recheck`:
    seconds within which a source that has come is found; `period_ends`: the instant by which a backup has to begin.
    """

    id: int
    waiter: Waiter | None
    period_ends: datetime
    habit: Habit
    today: Today
    recheck: float = 900.0


@dataclass
class Foreseen:
    """One assignment in all runs. `protected`: the number of runs in which it was; `there`: the number in which it
    could have been, with a unit for itself; `starts`: when it began, in seconds from now.
    """

    protected: int = 0
    there: int = 0
    starts: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Runs:
    """The outcome of a number of runs, by the ids of contenders."""

    number: int
    found: Mapping[int, Foreseen]

    def probability(self, contender: int) -> float:
        """The probability of being protected. With the runs and two more, so that nothing is certain."""
        return (self.found[contender].protected + 0.5) / (self.number + 1)


Drawn = Callable[[float | None, random.Random], float]
"""A function that draws a duration: expected seconds (None for a first backup) → seconds."""


def foresee(
    state: QueueState, contenders: Sequence[Contender], draw: Drawn, others: Mapping[bool, Past], rng: random.Random,
    *, runs: int = RUNS, until: float | None = None,
) -> Runs:  # fmt: skip
    """Run `state` forward, without its `waiting`, `runs` times, or as often as there is time before `until`, by the
    monotonic clock; at least once. `others`: weekend → days of all sources.
    """
    found = {each.id: Foreseen() for each in contenders}
    done = 0
    for _ in range(runs):
        _run(state, contenders, draw, others, rng, found)
        done += 1
        if until is not None and time.monotonic() > until:
            break
    return Runs(done, found)


def _run(
    state: QueueState, contenders: Sequence[Contender], draw: Drawn, others: Mapping[bool, Past], rng: random.Random,
    found: Mapping[int, Foreseen],
) -> None:  # fmt: skip
    now, waiting = state.now, list[Waiter]()
    takes, leaves = dict[int, float](), dict[int, datetime | None]()
    by_record = dict[int, Contender]()
    for each in contenders:
        stay = each.habit.draw(each.today, rng, others.get(each.today.weekday > 4, ()))
        if each.waiter is None:
            found[each.id].there += 1
            found[each.id].protected += 1
            continue
        if stay is None:
            continue
        wait = 0.0 if each.today.is_there or each.habit.always else rng.uniform(0.0, each.recheck)
        comes = now + timedelta(seconds=stay.from_s - each.today.now + wait)
        away = None if stay.to_s == float("inf") else now + timedelta(seconds=stay.to_s - each.today.now)
        ready_at = max(each.waiter.ready_at, comes)
        seconds = draw(None if each.waiter.is_first else each.waiter.head.expected_seconds, rng)
        last = min(filter(None, (each.waiter.closes_at, each.period_ends)))
        if (away is not None and ready_at >= away) or ready_at >= last:
            continue
        record = each.waiter.head.id
        by_record[record], takes[record], leaves[record] = each, seconds, away
        found[each.id].there += away is None or ready_at + timedelta(seconds=seconds) <= away
        waiting.append(replace(each.waiter, ready_at=ready_at, closes_at=last, leaves_at=away))

    def took(each: Waiter | Runner) -> float:
        if isinstance(each, Waiter):
            return takes[each.head.id]
        so_far = (now - each.began_at).total_seconds()

        def learnt() -> float:
            drawn = (draw(each.expected_seconds, rng) for _ in range(TRIES))
            return next((seconds for seconds in drawn if seconds > so_far), so_far * 1.1 + 30.0)

        return drawn_seconds(so_far, learnt, each.progress, rng)

    for record, at in starts(replace(state, waiting=waiting), took).items():
        contender, away = by_record[record], leaves[record]
        found[contender.id].starts.append((at - now).total_seconds())
        found[contender.id].protected += away is None or at + timedelta(seconds=takes[record]) <= away


def units_for(
    share: float, state: QueueState, contenders: Sequence[Contender], draw: Drawn, others: Mapping[bool, Past],
    rng: random.Random, *, most: int = 10_000, until: float | None = None,
) -> int | None:  # fmt: skip
    """The fewest units that protect this share of the assignments that any number could protect; None if `most` are not
    enough, or there was no time to find out.
    """

    def is_enough(units: int) -> bool:
        alike = random.Random(seed)  # noqa: S311 - no secret comes of it
        runs = foresee(replace(state, units=units), contenders, draw, others, alike, runs=5, until=until)
        return sum(each.protected for each in runs.found.values()) >= share * sum(
            each.there for each in runs.found.values()
        )

    seed, low, high = rng.random(), 0, max(1, len(state.running))
    while not is_enough(high):
        low, high = high, high * 2
        if high > most or (until is not None and time.monotonic() > until):
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
        if until is not None and time.monotonic() > until:
            return None
    return high
