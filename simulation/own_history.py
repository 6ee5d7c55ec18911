"""The fleet of this installation as it was recorded: which source was there when, how long backups took, and which
source is under which policy. Facts that were not recorded are named with it, since a simulation is as good as its
facts.

Sightings are the attempts of records: a question that was answered or was not, a copy from its start to its end; and
the check-ins of agents that were news, with the last one of each. Nothing is written.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from math import log
from statistics import median, pstdev
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from external.formatting import several
from fleet.foreseeing.presence import Sighting, presence_of
from fleet.foreseeing.sightings import first_attempt_at, sightings_since
from jobs.conf import PROGRAM
from jobs.zones import in_zone, zone_of
from operations.backlog.surroundings import Surroundings
from schedules.time_limits import GoOn, for_ever
from simulation.fleet_file import SimulatedFleet, SimulatedPolicy, SimulatedPresence, SimulatedSource
from simulation.machines import DAY
from simulation.samples import WHOLE, SampleRequest
from sources.models import Assignment, AtClose, Policy
from sources.planning.names import BACKUPS

LONGEST_DAYS = 90
UNDER = " under "
"""The text between the name of a source and that of its policy, if the source is under two."""
FEW = 5
"""Questions of a source below which its presence is hardly known."""
NEVER_SEEN = "left out, as never seen there"
UNMEASURED = "left out, as no backup is known that says how long one takes"
FIRST_TIMES = 8.0
"""The duration of a first backup as a multiple of a later one, if no first one is known."""

# `first`: no backup of the assignment is older.
DURATIONS = """
SELECT b.assignment_id, extract(epoch FROM b.ended_at - b.started_at)::float8,
       NOT EXISTS (SELECT FROM sources_backup o
                    WHERE o.assignment_id = b.assignment_id AND o.started_at < b.started_at) AS first
  FROM sources_backup b
 WHERE b.ended_at > %(since)s {of_some}
 ORDER BY b.started_at
"""


class HistoryTooShort(ValueError):
    """A fleet cannot be made of the recorded facts. The message names the reason."""


@dataclass(frozen=True)
class RecordedFleet:
    """A fleet with the number of whole days for which it is known, and sentences about the facts that are not.
    `share`: its part of all sources, with that share of the units.
    """

    fleet: SimulatedFleet
    days: int
    lacks: list[str] = field(default_factory=list)
    share: Fraction = WHOLE


@dataclass
class _Known:
    """The records of one assignment."""

    seen: list[Sighting] = field(default_factory=list)
    first: float | None = None
    later: list[float] = field(default_factory=list)


def recorded_fleet(
    now: datetime,
    days: int,
    units: int | None = None,
    go_on: GoOn = for_ever,
    sampling: SampleRequest | None = None,
) -> RecordedFleet:
    """The fleet of the last `days` days. `units`: their number if no worker is alive, whose units would count.
    `sampling`: a sample is enough, with its share of the units.

    Raises: HistoryTooShort naming what is missing; NotComputed if no sample will do; ValueError for a number of days
    that is not 1 to 90; what `go_on` raises.
    """
    if not 1 <= days <= LONGEST_DAYS:
        raise ValueError(f"{days} days: simulate the last 1 to {LONGEST_DAYS}")
    here = Surroundings([], now).units[BACKUPS] or units
    related: QuerySet[Assignment] = Assignment.objects.active().select_related("source", "policy__schedule")
    related, share = sampling.of(related, here or 1) if sampling else (related, WHOLE)
    assignments = [each for each in related.order_by("pk") if not each.policy.problem]
    if not assignments:
        raise HistoryTooShort(
            "no source is under a policy that is enabled and can be read: there is nothing to simulate"
        )
    if not here:
        raise HistoryTooShort("no worker is alive, so the number of units is not known: name one")
    since = _midnight(now - timedelta(days=days))
    first = first_attempt_at(since)
    if first is None:
        raise HistoryTooShort(
            f"no attempt was recorded since {since:%Y-%m-%d}: there is no history; `{PROGRAM} simulate FLEET.json` "
            "takes a file"
        )
    begins = max(_midnight(first), since)
    whole = int((now - begins) / timedelta(days=1))
    if whole < 1:
        raise HistoryTooShort(
            f"history begins at {begins:%Y-%m-%d %H:%M} UTC: one whole day is needed, and it is not over"
        )
    go_on()
    known = _known(assignments, since, begins, is_sample=share < WHOLE)
    lacks = [f"history is too short for {several(days, 'day')}: it begins on {begins:%Y-%m-%d}"] if whole < days else []
    policies = {each.policy_id: each.policy for each in assignments}
    made = _Fleet(known, begins, whole)
    sources = []
    for each in assignments:
        go_on()
        sources.append(made.source(each))
    if not any(sources):
        raise made.nothing(len(assignments))
    fleet = SimulatedFleet.model_construct(
        units=round(here * share), seed=1, start=begins,
        policies=[_policy(each) for each in policies.values()],
        sources=[each for each in sources if each],
    )  # fmt: skip
    if share < WHOLE:
        one_in = f"one source in {round(float(1 / share), 1):,g}, with that share of the units"
        lacks.append(f"all but a sample: {one_in}; sources and periods are counted in it, units in the whole fleet")
    lacks += [*made.lacks(len(assignments)), _without_effect(policies.values())]
    return RecordedFleet(fleet, whole, lacks, share)


def _without_effect(policies: Collection[Policy]) -> str:
    """A sentence about the causes of delay that these policies have and that are not simulated."""
    present = {
        "throttles": any(each.schedule.throttle_id or each.seeding_limit for each in policies),
        "priorities": any(each.schedule.priority for each in policies),
        "excluded dates": any(each.excluded_dates for each in policies),
        "rules for the close of a window": any(
            each.only_if_it_fits or each.at_close != AtClose.FINISH for each in policies
        ),
    }
    named = ["failures", "breakers", *(name for name, is_there in present.items() if is_there)]
    return f"the effect of {', '.join(named[:-1])} and {named[-1]}, which are not simulated"


def _midnight(instant: datetime) -> datetime:
    return instant.replace(hour=0, minute=0, second=0, microsecond=0)


def _rows(sql: str, since: datetime, **values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, {"since": since, **values})
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


def _known(
    assignments: Sequence[Assignment], since: datetime, begins: datetime, *, is_sample: bool
) -> dict[int, _Known]:
    """Assignment → the recorded sightings; if two have the same source, each has those of the other, too."""
    shift = (begins - since).total_seconds()
    source_of = {each.pk: each.source_id for each in assignments}
    seen = sightings_since(since, source_of, shift)
    found = {each.pk: _Known([one for one in seen.get(each.source_id, []) if one.ends > 0]) for each in assignments}
    durations = DURATIONS.format(of_some="AND b.assignment_id = ANY(%(assignments)s::bigint[])" if is_sample else "")
    for assignment, seconds, first in _rows(durations, since, assignments=list(source_of)):
        if known := found.get(assignment):
            if first:
                known.first = seconds
            else:
                known.later.append(seconds)
    return found


class _Fleet:
    """Makes the sources, and counts the facts about them that are not known."""

    def __init__(self, known: dict[int, _Known], begins: datetime, days: int) -> None:
        self._known, self._begins, self._days = known, begins, days
        self._never, self._unmeasured = list[str](), list[str]()
        self._few, self._guessed = list[str](), list[str]()
        later = [seconds for each in known.values() for seconds in each.later]
        firsts = [each.first for each in known.values() if each.first is not None]
        self._later = median(later) if later else None
        self._first = median(firsts) if firsts else None
        self._names: set[str] = set()

    def source(self, assignment: Assignment) -> SimulatedSource | None:
        """The source of an assignment. None if nothing is known of how long it takes, or if it was never seen."""
        known, name = self._known[assignment.pk], self._name(assignment)
        took = median(known.later) if known.later else assignment.last_backup_for or self._later
        first = known.first or self._first or (took and took * FIRST_TIMES)
        if not any(each.there for each in known.seen):
            self._never.append(name)
            return None
        if not first:
            self._unmeasured.append(name)
            return None
        if len(known.seen) < FEW:
            self._few.append(name)
        if not known.later:
            self._guessed.append(name)
        wakes = bool(assignment.source.mac_address) and _may_wake(assignment)
        zone = zone_of(assignment.policy.schedule.zone)
        local = in_zone(self._begins, zone)
        midnight = (DAY - (local.hour * 3600 + local.minute * 60 + local.second)) % DAY
        stays = presence_of(known.seen, self._days, midnight, wakes=wakes)
        presence = [SimulatedPresence(*each) for each in stays]
        return SimulatedSource.model_construct(
            name=name, kind=assignment.source.kind, policy=str(assignment.policy), wake_on_lan=wakes,
            first_seconds=max(1.0, first), median_seconds=max(1.0, took or first / FIRST_TIMES),
            sigma=_spread(known.later), backed_up=_was_backed_up(assignment, known), failing=0.0, presence=presence,
        )  # fmt: skip

    def _name(self, assignment: Assignment) -> str:
        name = assignment.source.name
        name = name if name not in self._names else f"{name}{UNDER}{assignment.policy}"
        self._names.add(name)
        return name

    def lacks(self, of: int) -> list[str]:
        """Sentences about facts that are not known. Empty if all are."""
        found = []
        for names, what in (
            (self._never, NEVER_SEEN),
            (self._unmeasured, UNMEASURED),
            (self._few, f"asked fewer than {FEW} times, and taken as there as far as seen"),
            (self._guessed, "without a later backup in that time, and taken as long as the last one, or as others"),
        ):
            if names:
                found.append(_of_them(names, of, what))
        return found

    def nothing(self, of: int) -> HistoryTooShort:
        """The error if not one source could be made."""
        left_out = ((self._never, NEVER_SEEN), (self._unmeasured, UNMEASURED))
        why = "; ".join(_of_them(names, of, what) for names, what in left_out if names)
        return HistoryTooShort(f"nothing is known of any source since {self._begins:%Y-%m-%d}: {why}")


def _of_them(names: Sequence[str], of: int, what: str) -> str:
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return f"{len(names):,} of {several(of, 'assignment')} {what} ({', '.join(names[:3])}{more})"


def _may_wake(assignment: Assignment) -> bool:
    own = assignment.source.wake_allowed
    return assignment.policy.wake_allowed if own is None else own


def _was_backed_up(assignment: Assignment, known: _Known) -> bool:
    """Tell whether it had a backup when the history begins."""
    return known.first is None and assignment.last_backup_at is not None


def _spread(later: Sequence[float]) -> float:
    return min(3.0, round(pstdev([log(max(1.0, each)) for each in later]), 3)) if len(later) > 1 else 0.0


def _policy(policy: Policy) -> SimulatedPolicy:
    schedule = policy.schedule
    names = ("connect_timeout", "recheck_after", "wake_every", "wake_wait", "vanish_grace")
    return SimulatedPolicy.model_construct(
        name=schedule.name, period=schedule.cron, zone=schedule.zone, windows=policy.window,
        **{name: getattr(policy, name) for name in names},
    )  # fmt: skip
