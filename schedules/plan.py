"""The plan of a schedule: the load curve of seven days, and which of its batches complete inside their window. Pure.

    plan(schedule, others, gate, now)

`others` are those that share its throttle. The curve is drawn twice, with the schedule's events spread over its window
and with all of them at the trigger; the queue is filled as the schedule is set. Schedules of a lower priority do not
delay it, those of a higher or the same one are taken to go first where they come first. Batches that are under way at
the start are left out: an edit does not change them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from math import inf

from schedules.cron import Period
from schedules.plan_load import MINUTE, Planned, Profile, add_load, profile_of, triggers
from schedules.plan_queue import Ending, Gate, endings, queued

DAYS = 7
MINUTES = DAYS * 24 * 60
LATE_FROM = 0.1
"""Seconds after the close of its window from which a batch is late: less is rounding, and would be told as 0.0 s."""

SHOWN_TRIGGERS = 10

Batches = tuple[Planned, Profile, Sequence[int]]
"""A schedule, the profile of a batch of it, and the minutes at which one begins."""


@dataclass(frozen=True)
class Curve:
    """Events that may start in each minute: those of the schedule, and those of the others that share its throttle."""

    own: list[float]
    others: list[float]

    @cached_property
    def both(self) -> list[float]:
        return [own + other for own, other in zip(self.own, self.others, strict=True)]

    @property
    def peak(self) -> float:
        """Events in the busiest minute."""
        return max(self.both, default=0.0)

    @property
    def busiest(self) -> int:
        """The first of the busiest minutes, as minutes since the start."""
        both = self.both
        return both.index(max(both))

    @property
    def mean(self) -> float:
        """Events a minute over all minutes."""
        return sum(self.both) / len(self.own)


@dataclass(frozen=True)
class Verdict:
    """What becomes of the batches of a schedule at the pace of its gate.

    `pace` is events a second, infinity where nothing is known to limit them: what one worker delivers is reckoned with
    all the same. `needed` is what a batch needs to be through in its window (0 without one), `fits_alone` whether it is
    when by itself; true without one. `alone_for`: seconds for that, all of it at the trigger. `late` are the batches
    that end after their window, of `judged`; the `slowest` is none when there are none. `busy` is the share of the
    gate's time that is asked for.
    """

    pace: float
    needed: float
    fits_alone: bool
    alone_for: float
    judged: int
    late: tuple[Ending, ...]
    slowest: Ending | None
    busy: float


@dataclass(frozen=True)
class Plan:
    """A schedule's seven days from `start` (aware UTC, a whole minute); `trigger_at` are its next ten triggers.

    `spread` is None for a schedule without a window: there is nothing to spread over. `verdict` is None when the gate
    is shut: nothing gets through. `postponed`: it has no trigger in the seven days from now, so they begin at its next.
    """

    schedule: Planned
    others: tuple[Planned, ...]
    gate: Gate
    start: datetime
    postponed: bool
    trigger_at: tuple[datetime, ...]
    triggers: int
    bunched: Curve
    spread: Curve | None
    verdict: Verdict | None

    @property
    def chosen(self) -> Curve:
        """The curve as the schedule is set."""
        return self.spread if self.spread and self.schedule.is_spread else self.bunched

    def at(self, minute: float) -> datetime:
        """The instant so many minutes after the start."""
        return self.start + timedelta(minutes=minute)

    def closes_at(self, trigger_at: datetime) -> datetime | None:
        """When the window that a trigger opens closes; None without a window."""
        return trigger_at + timedelta(seconds=self.schedule.window_for) if self.schedule.window_for else None


def plan(schedule: Planned, others: Sequence[Planned], gate: Gate, now: datetime) -> Plan:
    """The plan of `schedule` beside `others`, for the seven days from `now` (aware).

    Raises: ValueError for a cron or zone that cannot be read, of the schedule itself or of others.
    """
    upcoming = Period(schedule.cron, schedule.zone).after(now)
    trigger_at = tuple(next(upcoming) for _ in range(SHOWN_TRIGGERS))
    start = now.replace(second=0, microsecond=0)
    postponed = trigger_at[0] >= start + timedelta(minutes=MINUTES)
    if postponed:
        start = trigger_at[0] - timedelta(minutes=1)
    profile = profile_of(schedule)
    # its last batch is followed to its end, beyond the curve
    minutes = MINUTES + int(profile.last // MINUTE) + 1
    own = triggers(schedule.cron, schedule.zone, start, MINUTES)
    batches = [(other, profile_of(other), triggers(other.cron, other.zone, start, minutes)) for other in others]
    beside = [0.0] * MINUTES
    for _, of_other, at in batches:
        add_load(beside, of_other, at)
    bunched = replace(schedule, staggered=False)
    spread = replace(schedule, staggered=True)
    return Plan(
        schedule=schedule,
        others=tuple(others),
        gate=gate,
        start=start,
        postponed=postponed,
        trigger_at=trigger_at,
        triggers=len(own),
        bunched=Curve(_load(profile_of(bunched), own), beside),
        spread=Curve(_load(profile_of(spread), own), beside) if spread.is_spread else None,
        verdict=None if gate.is_shut else _judge(schedule, [(schedule, profile, own), *batches], gate, minutes),
    )


def _judge(schedule: Planned, batches: Sequence[Batches], gate: Gate, minutes: int) -> Verdict:
    """`batches`: its own first, then those of the others."""
    work = [0.0] * minutes
    for other, profile, at in batches:
        if other.priority >= schedule.priority:
            add_load(work, profile, at, gate.cost(other.seconds_each))
    _, profile, own = batches[0]
    ended = endings(own, profile.last, queued(work, gate.credit(schedule.seconds_each)), schedule.seconds_each)
    window = schedule.window_for
    pace = gate.pace(schedule.seconds_each)
    needed = schedule.events / window if window else 0.0
    return Verdict(
        pace=inf if gate.is_open else pace,
        needed=needed,
        fits_alone=needed <= pace,
        alone_for=max(schedule.events * gate.cost(schedule.seconds_each), schedule.seconds_each),
        judged=len(ended),
        late=tuple(each for each in ended if window and each.seconds >= window + LATE_FROM),
        slowest=max(ended, key=lambda each: each.seconds, default=None),
        busy=sum(work[:MINUTES]) / (MINUTES * MINUTE),
    )


def _load(profile: Profile, at: Sequence[int]) -> list[float]:
    found = [0.0] * MINUTES
    add_load(found, profile, at)
    return found
