"""The part *leaving*: a source that is about to leave comes first, among later backups of one day in the order.

The largest value of w · [P(stays p) - 0.9 · P(stays p + 90 min)] / p comes first: the loss by waiting, for each second
of work. p: the last duration; w: 1, and a quarter more for each day overdue. The time for which a source stays has a
logistic distribution about its mean departure, given that it is there now. Its width is that of the latest error of the
same guess: when the habit was wrong, the width grows and the order falls back to the shortest first, so a learnt habit
never holds on to a mistake. First backups keep their order.

The known facts are the departures of earlier days, as agents report them.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from math import exp
from typing import Any

from jobs import priorities
from simulation.lookahead.records import MemoryRecord, ReadyQueue
from simulation.machines import DAY, SimulatedMachine

WAITS = 5_400.0
"""Seconds: how long the next chance is thought to be away."""
DISCOUNT = 0.9
WIDTH_OF_ERROR = 0.72
LEAST_WIDTH, USUAL_WIDTH = 300.0, 3_600.0

Habit = tuple[float, float]
"""Mean departure, in seconds of the day, and the width of the distribution about it."""


class Departures:
    """The departures of each source that are known before a day."""

    def __init__(self, machines: Sequence[SimulatedMachine]) -> None:
        left = {each.number: _departures(each) for each in machines}
        sums, counts = defaultdict[int, float](float), defaultdict[int, int](int)
        for days in left.values():
            for day, at in days:
                sums[day] += at
                counts[day] += 1
        self._habits = {number: self._learnt(days, sums, counts) for number, days in left.items()}

    @staticmethod
    def _learnt(
        days: list[tuple[int, float]], sums: dict[int, float], counts: dict[int, int]
    ) -> list[tuple[int, Habit]]:
        """The habits, each with the day from which on it is believed."""
        found: list[tuple[int, Habit]] = []
        total, errors = 0.0, list[float]()
        for number, (day, at) in enumerate(days):
            if number:
                errors.append(abs(at - found[-1][1][0]))
            total += at
            known = [each for each in sums if each <= day]
            fleet = sum(sums[each] for each in known) / sum(counts[each] for each in known)
            usual = sum(errors) / len(errors) if errors else 0.0
            width = WIDTH_OF_ERROR * errors[-1] * max(1.0, errors[-1] / usual) if usual else USUAL_WIDTH
            found.append((day + 1, ((total + fleet) / (number + 2), max(LEAST_WIDTH, width))))
        return found

    def habit(self, number: int, now: float) -> Habit | None:
        day, found = int(now // DAY), None
        for since, habit in self._habits[number]:
            if since > day:
                break
            found = habit
        return found


def _departures(machine: SimulatedMachine) -> list[tuple[int, float]]:
    """The last departure of each day: the day, and the second of the day."""
    last: dict[int, float] = {}
    for stay in machine.present.all:
        day = int((stay.ends - 1e-6) // DAY)
        last[day] = stay.ends - day * DAY
    return sorted(last.items())


def worth(expected: float, overdue_days: int, habit: Habit | None, at: float) -> float:
    """The value that is lost by letting it wait, for each second of its work. `at`: the present, in
    seconds of the day.
    """
    mean, width = habit or (DAY, USUAL_WIDTH)

    def stays(seconds: float) -> float:
        return (1 + exp(_capped((at - mean) / width))) / (1 + exp(_capped((at + seconds - mean) / width)))

    weight = 1.0 + 0.25 * max(0, overdue_days)
    return weight * (stays(expected) - DISCOUNT * stays(expected + WAITS)) / max(expected, 1.0)


def _capped(value: float) -> float:
    return min(value, 50.0)


class LeavingFirst(ReadyQueue):
    """A queue whose first records of one day are reordered, as many as `most`, when it is claimed from."""

    def __init__(self, departures: Departures, clock: Callable[[], datetime], start: datetime, most: int) -> None:
        super().__init__()
        self._departures, self._clock, self._start, self._most = departures, clock, start, most

    def take(self, limit: int, *, woken_only: bool = False) -> Iterator[MemoryRecord]:
        left = limit
        while left > 0 and (head := self.first()):
            record = head[2]
            if woken_only or record.due_day is None or priorities.is_woken(record.priority):
                taken = list(super().take(1, woken_only=woken_only))
            else:
                taken = self._most_urgent(record, left)
            if not taken:
                return
            left -= len(taken)
            yield from taken

    def _most_urgent(self, head: MemoryRecord, limit: int) -> list[MemoryRecord]:
        alike: list[tuple[Any, int, MemoryRecord]] = []
        while len(alike) < self._most and (entry := self.first()):
            if (entry[2].rank_day, entry[2].priority) != (head.rank_day, head.priority):
                break
            alike.append(heapq.heappop(self._heap))
        now = self._clock()
        seconds = (now - self._start).total_seconds()
        today = now.date()

        def urgency(entry: tuple[Any, int, MemoryRecord]) -> float:
            record = entry[2]
            overdue = (today - record.due_day).days if record.due_day else 0
            habit = self._departures.habit(record.number, seconds)
            return -worth(record.expected_seconds or 0.0, overdue, habit, seconds % DAY)

        alike.sort(key=urgency)
        for entry in alike[limit:]:
            heapq.heappush(self._heap, entry)
        return [record for *_, record in islice(alike, limit)]
