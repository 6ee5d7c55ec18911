"""The estimated start of a source's backup: the claims of the queue `backups`, simulated a few dozen times from now on.

In each run durations are drawn: the last duration of a backup, times a ratio of two recent consecutive backups of one
source; for a first backup, a duration of other first backups. The presence of a source that has to be asked is drawn
according to how often it has answered lately. The median of the runs is the estimate, and nine tenths of them are its
interval, widened as described in `fleet/foreseeing/intervals.py`. For a ready record the estimate is the median of runs
in which no further source is asked. Any other record has a reason in place of an estimate.
"""

import random
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Any, NamedTuple

from django.db import connection

from external.formatting import moment, several
from fleet.foreseeing.contenders import running_backups
from fleet.foreseeing.durations import known_durations
from fleet.foreseeing.intervals import ForecastGroup, interval
from jobs.models import BacklogRecord, Lane, Throttle
from jobs.states import AttemptOutcome, Status, WaitingFor
from operations.backlog.ends import drawn_seconds
from operations.backlog.obstacles import paused
from operations.backlog.starts import QueueState, Runner, Waiter, starts
from operations.backlog.surroundings import Surroundings, title_of
from operations.backlog.throttling import Head
from schedules.time_limits import TimeCheck, without_limit
from sources.planning.names import ARRIVALS, AVAILABILITY, BACKUPS, KIND

RUNS = 41
RNG = random.Random()  # noqa: S311 - no secret comes of it
LEAST_KNOWN = 20
"""The least number of ratios of durations, or of durations of first backups, from which others are drawn."""
LEAST_ASKED, SURELY_THERE = 5, 0.9
"""The least number of questions to a source in two weeks, and the share answered, from which its
presence is relied on.
"""
MOST_IN_LINE = 300
"""The most records of a lane that are read, and the most waiting ones."""
MOST_LANES = 50
HORIZON = timedelta(hours=24)
ASKED_WITHIN = timedelta(seconds=2)
"""The time between the instant at which a source may be asked and its answer."""
BY_TIME = (WaitingFor.START, WaitingFor.WINDOW, WaitingFor.BACKOFF, WaitingFor.SNOOZE)
"""Waits that end by time alone."""

# For the records of these subjects: served by `backups_of_subject` and `one_unfinished_record_per_subject`.
ANSWERS = f"""
SELECT asked.subject, count(*), count(*) FILTER (WHERE t.outcome = {AttemptOutcome.HANDOFF})
  FROM unnest(%(subjects)s::text[]) AS asked(subject)
  JOIN jobs_backlogrecord r ON r.kind = '{KIND}' AND r.subject = asked.subject
   AND (r.finished_at IS NULL OR r.finished_at > %(since)s)
  JOIN jobs_attempt t ON t.record_id = r.id AND t.ended_at > %(since)s AND t.queue IN ('{AVAILABILITY}', '{ARRIVALS}')
   AND t.outcome IN ({AttemptOutcome.HANDOFF}, {AttemptOutcome.UNAVAILABLE})
 GROUP BY asked.subject
"""


@dataclass(frozen=True)
class ExpectedStart:
    """The start of a record: the median of the runs, and the interval around it, which contained nine tenths of the
    starts of simulated fleets. `because`: why there is no estimate; empty if there is one.
    """

    record: int | None
    at: datetime | None = None
    earliest: datetime | None = None
    latest: datetime | None = None
    because: str = ""

    @property
    def text(self) -> str:
        """The estimate as text: the interval, since the median is seldom right to within ten minutes."""
        if self.at is None:
            return f"no estimate, because {self.because}"
        if self.earliest == self.latest:
            return f"at {moment(self.at)} UTC, by all that is known now"
        return f"between {moment(self.earliest)} and {moment(self.latest)} UTC in about nine cases of ten"


class Presence(NamedTuple):
    """The number of times that a source was asked in the last two weeks, and the number of answers."""

    asked: int = 0
    answered: int = 0

    @property
    def is_known(self) -> bool:
        return self.asked >= LEAST_ASKED

    @property
    def share(self) -> float:
        return (self.answered + 1) / (self.asked + 2)


@dataclass(frozen=True)
class QueueSnapshot:
    """The queue of backups, read once, from which all estimates are computed. `presence`: by the ids of records that
    have to be asked first.
    """

    state: QueueState
    ratios: Sequence[float]
    firsts: Sequence[float]
    presence: dict[int, Presence]
    rated: Collection[int]
    stopped: str = ""

    def expect(self, record: BacklogRecord, rng: random.Random, check_time: TimeCheck = without_limit) -> ExpectedStart:
        """Estimate when `record` starts. `check_time` is called at each step; if it raises, there is no estimate."""
        try:
            if because := self._unqualified(record, check_time):
                return ExpectedStart(record.pk, because=because)
            drawn = [self._run(self.state.waiting, record.pk, rng, check_time) for _ in range(RUNS)]
            in_turn = self._in_turn(record.pk, rng, check_time)
        except ValueError as error:
            return ExpectedStart(record.pk, because=str(error))
        found = sorted(instant for instant in drawn if instant is not None)
        if len(found) < 0.9 * RUNS:
            share = several(RUNS - len(found), "run")
            text = f"in {share} of {RUNS} no unit is free for it while it waits, as far as durations are known"
            return ExpectedStart(record.pk, because=text)
        now = self.state.now
        seconds = interval(self._seconds(found), self._group(record), in_turn=self._seconds(in_turn))
        median, low, high = (now + timedelta(seconds=each) for each in (seconds.median, seconds.low, seconds.high))
        return ExpectedStart(record.pk, median, low, high)

    def _seconds(self, instants: Sequence[datetime | None]) -> list[float]:
        return [(each - self.state.now).total_seconds() for each in instants if each is not None]

    def _group(self, record: BacklogRecord) -> ForecastGroup:
        presence = self.presence.get(record.pk)
        if presence is None:
            return ForecastGroup.READY
        return ForecastGroup.ALWAYS if presence.answered == presence.asked else ForecastGroup.THERE

    def _unqualified(self, record: BacklogRecord, check_time: TimeCheck) -> str:
        """The reason why there is no estimate; empty if there is one."""
        if record.status == Status.RUNNING and record.queue == BACKUPS:
            return "it is running already"
        if record.status == Status.RUNNING:
            return "its source is being asked whether it is there"
        if self.stopped:
            return self.stopped
        if record.status == Status.WAITING and record.waiting_for not in BY_TIME:
            label = WaitingFor(record.waiting_for).label if record.waiting_for else ""
            ends = "its source is absent, and it is not known when it comes" if label == "recheck" else ""
            return ends or f"it waits for a {label}, which time alone does not end"
        if any(each in self.rated for each in self.state.lanes.get(record.lane, ())):
            return "one of its throttles has a rate, which is not run forward"
        if (presence := self.presence.get(record.pk)) is not None:
            if not presence.is_known:
                return f"its source was asked {several(presence.asked, 'time')} in two weeks: its presence is not known"
            if presence.share < SURELY_THERE:
                return f"its source answered {presence.answered} of {presence.asked} times in two weeks: it may be away"
        if all(each.head.id != record.pk for each in self.state.waiting):
            return f"at least {MOST_IN_LINE} records come before it, or it waits for longer than a day"
        if len(self.ratios) < LEAST_KNOWN and not self._is_next(record, check_time):
            known = several(len(self.ratios), "backup")
            return f"history is too short: {known} with an earlier one of the same source, and {LEAST_KNOWN} are needed"
        return ""

    def _is_next(self, record: BacklogRecord, check_time: TimeCheck) -> bool:
        """True if it starts at once, no matter how long others take."""
        is_next = record.pk in starts(self.state, lambda each: inf, record.pk, check_time)
        return is_next and record.pk not in self.presence

    def _in_turn(self, wanted: int, rng: random.Random, check_time: TimeCheck) -> list[datetime | None]:
        """The starts of a ready record if no source that still has to be asked comes before it: a worker asks them only
        while few records are ready. Empty if its own source has to be asked, or none has; fewer if there is no time.
        """
        found = list[datetime | None]()
        if wanted in self.presence or not self.presence:
            return found
        ready = [each for each in self.state.waiting if each.head.id not in self.presence]
        with suppress(ValueError):
            while len(found) < RUNS:
                found.append(self._run(ready, wanted, rng, check_time))
        return found

    def _run(
        self, waiting: Collection[Waiter], wanted: int, rng: random.Random, check_time: TimeCheck
    ) -> datetime | None:
        there = [each for each in waiting if each.head.id == wanted or self._is_there(each, rng)]
        state = QueueState(**{**vars(self.state), "waiting": there})
        return starts(state, lambda each: self._draw(each, rng), wanted, check_time).get(wanted)

    def _is_there(self, waiter: Waiter, rng: random.Random) -> bool:
        presence = self.presence.get(waiter.head.id)
        return presence is None or rng.random() < presence.share

    def _draw(self, each: Waiter | Runner, rng: random.Random) -> float:
        """The whole duration of a record; for a running one, longer than it has run."""
        if isinstance(each, Waiter):
            return self._learnt(each, rng)
        so_far = (self.state.now - each.began_at).total_seconds()
        return drawn_seconds(so_far, lambda: self._learnt(each, rng), each.progress, rng)

    def _learnt(self, each: Waiter | Runner, rng: random.Random) -> float:
        """The same by the durations of earlier backups alone."""
        expected = each.head.expected_seconds if isinstance(each, Waiter) else each.expected_seconds
        if expected is None or (isinstance(each, Waiter) and each.is_first):
            known = self.firsts if len(self.firsts) >= LEAST_KNOWN else ()
        else:
            known = [expected * ratio for ratio in self.ratios]
        if isinstance(each, Runner):
            so_far = (self.state.now - each.began_at).total_seconds()
            if known and not (longer := [took for took in known if took > so_far]):
                return so_far * (1 + rng.random() / 2)  # it takes longer than any known backup
            known = longer if known else ()
        return rng.choice(known) if known else inf


def snapshot(now: datetime) -> QueueSnapshot:
    """Read the facts for estimates, in some dozen statements, and one for each lane and queue."""
    lanes = dict(Lane.objects.order_by("pk").values_list("pk", "throttle_ids")[:MOST_LANES])
    rows = BacklogRecord.objects.filter(kind=KIND).defer("last_error")
    ready = [
        record
        for queue in (BACKUPS, AVAILABILITY, ARRIVALS)
        for lane in (0, *lanes)
        for record in rows.ready().filter(queue=queue, lane=lane).open_at(now).in_claim_order()[:MOST_IN_LINE]
    ]
    by_time = rows.waiting().filter(waiting_for__in=BY_TIME, run_after__lt=now + HORIZON)
    waiting = list(by_time.order_by("run_after")[:MOST_IN_LINE])
    around = Surroundings([], now)
    caps = Throttle.objects.values_list("pk", "max_in_flight", "rate")
    state = QueueState(
        now, around.units[BACKUPS], running_backups(now), [_waiter(each, now) for each in (*ready, *waiting)], lanes,
        {pk: most for pk, most, _ in caps},
    )  # fmt: skip
    to_ask = [each for each in (*ready, *waiting) if each.queue != BACKUPS]
    ratios, firsts = known_durations()
    return QueueSnapshot(
        state, ratios, firsts, _presence(to_ask, now), {pk for pk, _, rate in caps if rate}, _stopped(around)
    )


def _waiter(record: BacklogRecord, now: datetime) -> Waiter:
    place = (record.priority, record.rank_day, record.tried_at, record.expected_seconds)
    ready_at = now if record.queue == BACKUPS else max(now, record.run_after) + ASKED_WITHIN
    head = Head(record.lane, record.pk, *place, title_of(record))
    return Waiter(head, ready_at, record.closes_at, is_first=record.due_day is None)


def _stopped(around: Surroundings) -> str:
    """The reason why nothing starts at all; empty if records start."""
    for queue in (BACKUPS, AVAILABILITY):
        if reason := paused(BacklogRecord(queue=queue), around):
            return reason.text
        if queue not in around.units:
            return f"no worker that is alive serves queue {queue}"
    return ""


def _presence(records: Sequence[BacklogRecord], now: datetime) -> dict[int, Presence]:
    by_subject: dict[str, Any] = {each.subject: each.pk for each in records}
    if not by_subject:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(ANSWERS, {"subjects": [*by_subject], "since": now - timedelta(days=14)})
        found = {by_subject[subject]: Presence(asked, answered) for subject, asked, answered in cursor.fetchall()}
    return {pk: found.get(pk, Presence()) for pk in by_subject.values()}
