"""Sources as they were recorded, read some at a time: what was seen of them is forgotten as soon as their presence is
known; otherwise a fleet of 100,000 would be nine million attempts in memory.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import log
from statistics import median, pstdev
from typing import Any

from django.db import connection

from external.formatting import several
from fleet.foreseeing.presence import Sighting, presence_of
from fleet.foreseeing.sightings import sightings_since
from jobs.zones import in_zone, zone_of
from simulation.fleet_file import SimulatedPresence, SimulatedSource
from simulation.machines import DAY
from sources.models import Assignment

UNDER = " under "
"""The text between the name of a source and that of its policy, if the source is under two."""
FEW = 5
"""Questions of a source below which its presence is hardly known."""
NEVER_SEEN = "left out, as never seen there"
UNMEASURED = "left out, as no backup is known that says how long one takes"
FIRST_TIMES = 8.0
"""The duration of a first backup as a multiple of a later one, if no first one is known."""

# `first`: no backup of the assignment is older. Served by the index of their assignments. Without those that a clock
# was set during, or that ended by a clock that was ahead.
DURATIONS = """
SELECT b.assignment_id, extract(epoch FROM b.ended_at - b.started_at)::float8,
       NOT EXISTS (SELECT FROM sources_backup o
                    WHERE o.assignment_id = b.assignment_id AND o.started_at < b.started_at) AS first
  FROM sources_backup b
 WHERE b.ended_at > %(since)s AND b.started_at <= b.ended_at AND b.ended_at <= statement_timestamp()
   AND b.assignment_id = ANY(%(assignments)s::bigint[])
 ORDER BY b.started_at
"""


@dataclass
class _Durations:
    """Seconds of an assignment's recorded backups."""

    first: float | None = None
    later: list[float] = field(default_factory=list)


@dataclass
class _AssignmentFacts:
    """The facts about one assignment. `took`: the median of its later backups, None if there are none."""

    assignment: Assignment
    first: float | None
    took: float | None
    spread: float
    asked: int
    was_seen: bool
    presence: list[SimulatedPresence]

    @property
    def was_backed_up(self) -> bool:
        """True if it had a backup when the history begins."""
        return self.first is None and self.assignment.last_backup_at is not None


class RecordedSources:
    """Makes the sources, and counts the facts about them that are not known. `days` begin at `begins`; read is what
    was recorded after `since`."""

    def __init__(self, since: datetime, begins: datetime, days: int) -> None:
        self._since, self._begins, self._days = since, begins, days
        self._known = list[_AssignmentFacts]()
        self._firsts, self._laters = array("d"), array("d")
        self._never, self._unmeasured = list[str](), list[str]()
        self._few, self._guessed = list[str](), list[str]()
        self._midnights: dict[str, float] = {}

    def add(self, assignments: Sequence[Assignment]) -> None:
        """Read the facts of some; if two have the same source, each has the sightings of the other, too, so both must
        be there."""
        shift = (self._begins - self._since).total_seconds()
        source_of = {each.pk: each.source_id for each in assignments}
        seen = sightings_since(self._since, source_of, shift)
        durations = self._durations(source_of)
        for each in assignments:
            of_it = [one for one in seen.get(each.source_id, []) if one.ends > 0]
            self._known.append(self._fact(each, of_it, durations.get(each.pk) or _Durations()))

    def _durations(self, assignments: Iterable[int]) -> dict[int, _Durations]:
        found: dict[int, _Durations] = {}
        with connection.cursor() as cursor:
            cursor.execute(DURATIONS, {"since": self._since, "assignments": list(assignments)})
            rows: list[tuple[int, float, bool]] = cursor.fetchall()
        for assignment, seconds, first in rows:
            known = found.setdefault(assignment, _Durations())
            if first:
                known.first = seconds
            else:
                known.later.append(seconds)
        self._firsts.extend(each.first for each in found.values() if each.first is not None)
        self._laters.extend(seconds for each in found.values() for seconds in each.later)
        return found

    def _fact(self, assignment: Assignment, seen: Sequence[Sighting], durations: _Durations) -> _AssignmentFacts:
        wakes = bool(assignment.source.mac_address) and _may_wake(assignment)
        stays = presence_of(seen, self._days, self._midnight(assignment.policy.schedule.zone), wakes=wakes)
        took = median(durations.later) if durations.later else None
        was_seen = any(each.there for each in seen)
        presence = [SimulatedPresence(*each) for each in stays]
        return _AssignmentFacts(
            assignment, durations.first, took, _spread(durations.later), len(seen), was_seen, presence
        )

    def _midnight(self, zone: str) -> float:
        """The first local midnight, in seconds from the beginning."""
        if zone not in self._midnights:
            local = in_zone(self._begins, zone_of(zone))
            self._midnights[zone] = (DAY - (local.hour * 3600 + local.minute * 60 + local.second)) % DAY
        return self._midnights[zone]

    def made(self) -> list[SimulatedSource]:
        """All added sources, in the order of their assignments."""
        for names in (self._never, self._unmeasured, self._few, self._guessed):
            names.clear()
        self._known.sort(key=lambda each: each.assignment.pk)
        usual = median(self._laters) if self._laters else None
        usual_first = median(self._firsts) if self._firsts else None
        return list(self._sources(usual, usual_first))

    def _sources(self, usual: float | None, usual_first: float | None) -> Iterator[SimulatedSource]:
        """Sources that are known to have been there, if something is known of how long they take."""
        names = set[str]()
        for known in self._known:
            assignment = known.assignment
            name = assignment.source.name
            name = name if name not in names else f"{name}{UNDER}{assignment.policy}"
            names.add(name)
            took = known.took if known.took is not None else assignment.last_backup_for or usual
            first = known.first or usual_first or (took and took * FIRST_TIMES)
            if not known.was_seen:
                self._never.append(name)
                continue
            if not first:
                self._unmeasured.append(name)
                continue
            if known.asked < FEW:
                self._few.append(name)
            if known.took is None:
                self._guessed.append(name)
            yield SimulatedSource.model_construct(
                name=name, kind=assignment.source.kind, policy=str(assignment.policy),
                wake_on_lan=bool(assignment.source.mac_address) and _may_wake(assignment),
                first_seconds=max(1.0, first), median_seconds=max(1.0, took or first / FIRST_TIMES),
                sigma=known.spread, backed_up=known.was_backed_up, failing=0.0, presence=known.presence,
            )  # fmt: skip

    @property
    def policies(self) -> Collection[Any]:
        """The policies of all added sources, in the order of their assignments."""
        return {known.assignment.policy_id: known.assignment.policy for known in self._known}.values()

    def lacks(self) -> list[str]:
        """Sentences about facts that are not known. Empty if all are."""
        found = []
        for names, what in (
            (self._never, NEVER_SEEN),
            (self._unmeasured, UNMEASURED),
            (self._few, f"asked fewer than {FEW} times, and assumed to be there only when it was seen"),
            (
                self._guessed,
                "without a second backup in that time, and given the duration of the last one or of others",
            ),
        ):
            if names:
                found.append(self._of_them(names, what))
        return found

    def nothing(self) -> str:
        """The reason why not one source could be made."""
        left_out = ((self._never, NEVER_SEEN), (self._unmeasured, UNMEASURED))
        why = "; ".join(self._of_them(names, what) for names, what in left_out if names)
        return f"nothing is known of any source from {self._begins:%Y-%m-%d} on: {why}"

    def _of_them(self, names: Sequence[str], what: str) -> str:
        more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
        return f"{len(names):,} of {several(len(self._known), 'assignment')} {what} ({', '.join(names[:3])}{more})"


def _may_wake(assignment: Assignment) -> bool:
    own = assignment.source.wake_allowed
    return assignment.policy.wake_allowed if own is None else own


def _spread(later: Sequence[float]) -> float:
    return min(3.0, round(pstdev([log(max(1.0, each)) for each in later]), 3)) if len(later) > 1 else 0.0
