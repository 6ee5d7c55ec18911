"""ProactiveAI as it was published (Retrospect): each free unit takes the first source in the order and asks it itself.

A silent source is asked for a minute, sent a magic packet, given three minutes and asked for another minute; all of
that keeps the unit busy. If it is known to be absent, it comes behind the sources that have not been tried on its day.

    never backed up, then the day of the next-backup date → least recently tried → shortest last duration → prior order
"""

import heapq
from bisect import bisect_right
from math import inf
from typing import NamedTuple

from simulation.machines import DAY, SimulatedMachine
from simulation.results import Ledger

WAITS_AFTER_A_PACKET = 180.0
RETRIED_AFTER = 60.0
"""Seconds from the end of an unsuccessful try to the next try of the same source, at least."""


class PlaceInOrder(NamedTuple):
    """The place of a source in the order; `rank_day` is -1 if it was never backed up."""

    rank_day: int
    tried_at: float
    expected_seconds: float
    number: int


class ProactiveModel:
    """The scheduler: the fleet's time passes in `run`, and its work goes into the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._machines = ledger, ledger.machines
        self._backed_up = {each.number for each in ledger.machines if each.source.backed_up}
        self._expected = {
            each.number: each.source.median_seconds if each.source.backed_up else 0.0 for each in ledger.machines
        }
        self._timeouts = {each.name: each.connect_timeout for each in ledger.fleet.policies}
        self._comes: list[tuple[float, PlaceInOrder]] = []
        self._ready: list[PlaceInOrder] = []
        for machine in ledger.machines:
            day = 0 if machine.source.backed_up else -1
            self._put(0.0, PlaceInOrder(day, -inf, self._expected[machine.number], machine.number))

    def run(self) -> None:
        free_at = [(0.0, unit) for unit in range(self._ledger.fleet.units)]
        while free_at[0][0] < self._ledger.end:
            now, unit = heapq.heappop(free_at)
            while self._comes and self._comes[0][0] <= now:
                heapq.heappush(self._ready, heapq.heappop(self._comes)[1])
            place = self._first(now)
            next_comes_at = self._comes[0][0] if self._comes else inf
            heapq.heappush(free_at, (self._try(place, now) if place else next_comes_at, unit))

    def _first(self, now: float) -> PlaceInOrder | None:
        """Take the first one whose window is open; the others wait for their opening."""
        while self._ready:
            place = heapq.heappop(self._ready)
            if (opens_at := self._opens_at(place.number, now)) <= now:
                return place
            self._put(opens_at, place)
        return None

    def _opens_at(self, number: int, now: float) -> float:
        openings = self._ledger.calendars[number].openings
        following = next((each for each in openings if each.ends > now), None)
        return max(now, following.begins) if following else inf

    def _put(self, at: float, place: PlaceInOrder) -> None:
        if at < self._ledger.end:
            heapq.heappush(self._comes, (at, place))

    def _try(self, place: PlaceInOrder, now: float) -> float:
        """Ask and back up. Returns when the unit is free again."""
        machine = self._machines[place.number - 1]
        if not machine.answers(now):
            asked_until = self._ask_twice(machine, now)
            if not machine.answers(asked_until):
                self._ledger.absent_unit_seconds += min(asked_until, self._ledger.end) - now
                self._put(asked_until, self._demoted(place, asked_until))
                return asked_until
            if (opens_at := self._opens_at(place.number, asked_until)) > asked_until:
                self._put(opens_at, place)
                return asked_until
            now = asked_until
        self._ledger.answered(place.number, now)
        run = machine.run(now, first=place.number not in self._backed_up)
        self._ledger.runs.append(run)
        if not run.succeeded:
            self._put(run.ends + RETRIED_AFTER, self._demoted(place, run.ends))
            return run.ends
        self._backed_up.add(place.number)
        self._expected[place.number] = run.ends - run.begins
        begins = self._ledger.calendars[place.number].begins
        following = bisect_right(begins, run.begins)
        if following < len(begins):
            due = begins[following]
            self._put(max(due, run.ends), PlaceInOrder(int(due // DAY), -inf, run.ends - run.begins, place.number))
        return run.ends

    def _ask_twice(self, machine: SimulatedMachine, now: float) -> float:
        """Returns when the second question is over."""
        timeout = self._timeouts[machine.source.policy]
        if not machine.source.wake_on_lan:
            return round(now + timeout, 6)
        self._ledger.packets += 1
        machine.wake(now + timeout)
        asked_at = round(now + timeout + WAITS_AFTER_A_PACKET, 6)
        return asked_at if machine.answers(asked_at) else round(asked_at + timeout, 6)

    def _demoted(self, place: PlaceInOrder, now: float) -> PlaceInOrder:
        return place._replace(rank_day=max(place.rank_day, int(now // DAY)), tried_at=now)


def simulate(ledger: Ledger) -> None:
    """Let the fleet's time pass and record the scheduler's work."""
    ProactiveModel(ledger).run()
