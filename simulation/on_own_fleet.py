"""The effect of a change on the fleet of this installation, within a time: for pages and answers."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Case, Q, QuerySet, Value, When
from django.utils.safestring import mark_safe

from declarations.surfaces.patience import TookTooLong, at_most
from external.formatting import several
from fleet.dry_runs import Effect
from jobs.clock import database_clock
from operations.limits import LimitOfOneProcess
from simulation import own_changes, samples
from simulation.changes import SECONDS as SETTINGS
from simulation.changes import Changes, ImpossibleChange
from simulation.chart import chart_of
from simulation.own_history import History, HistoryTooShort
from simulation.samples import SampleRequest, rest_in
from simulation.what_if import NotComputed, OutlookComparison, as_text, compare
from sources.models import Assignment, Policy

SECONDS = 8.0
"""The limit of a page or an answer, which keeps a thread of the website busy."""
ASKED = LimitOfOneProcess("what-if", 6, 60)
"""The limit per account."""
BEFORE_SAVING_SECONDS, BEFORE_SAVING_DAYS = 2.0, 7
"""The limit for the forecast before an edit is saved, and the number of days that are looked at."""
FOR_READING = 0.4
"""The share of the time after which no further source is read: those that were are a sample."""
FOR_GROWING = 0.5
"""The share of the time within which a larger sample is to be simulated: a machine may slow down while it simulates."""
FIRST_SOURCES, AT_ONCE_IF = 10, 150
"""The size of the first sample, without those that a change is about; and of the fleets that are simulated at once."""
LEAST_TIMES, MOST_TIMES = 1.5, 10
"""The least and the greatest factor by which the next sample is larger."""
ENOUGH_DAYS = 7
"""Days of all sources that say more than all days of some."""
LEAST_SECONDS = 0.001
"""The least limit: 0 would be none."""
MOST_SOURCES, MOST_BEFORE_SAVING = 2_000, 150
"""A larger fleet is simulated as a sample of at most this size."""
KEPT_OF_POLICY = 10
"""Sources of a policy that is changed, which are in any sample."""
SHOWN = 10

Read = TypeVar("Read")


@dataclass(frozen=True)
class OwnFleetComparison:
    """The difference, and sentences about facts of the fleet that are not known."""

    found: OutlookComparison
    lacks: list[str]

    @property
    def as_facts(self) -> dict[str, Any]:
        """The fields by name."""
        return self.found.as_facts | {"lacks": self.lacks}


def what_if(now: datetime, days: int, changes: Changes, seconds: float = SECONDS) -> OwnFleetComparison:
    """Compare the last `days` days, or as many of them as there is time for.

    Raises: ImpossibleChange; HistoryTooShort; NotComputed.
    """
    own_changes.check(changes)
    return _compared(now, days, changes, seconds, MOST_SOURCES, _about(changes, now - timedelta(days=days)))


def _compared(now: datetime, days: int, changes: Changes, seconds: float, most: int, always: Q) -> OwnFleetComparison:
    return _GrowingComparison(changes, seconds, most).compared(now, days, always)


class _GrowingComparison:
    """A comparison of ever more sources, while there is time: first of a few, which take any machine only part of the
    time, and then of as many more as the rest is likely to be enough for, judging by these. So there is an answer when
    the time is over.
    """

    def __init__(self, changes: Changes, seconds: float, most: int) -> None:
        self._changes, self._seconds, self._most = changes, seconds, most
        self._began = time.monotonic()
        self._each = 0.0
        """The seconds that a source of the latest sample took to be read, and simulated twice."""

    def compared(self, now: datetime, days: int, always: Q) -> OwnFleetComparison:
        """Raises: ImpossibleChange; HistoryTooShort; NotComputed."""
        history = self._reading(lambda: History(now, days, self._changes.units, SampleRequest(self._most, always)))
        found: OwnFleetComparison | None = None
        why: ValueError | None = None
        about = KEPT_OF_POLICY * len(self._changes.policies) + len(self._changes.added)
        wanted = history.sources if history.sources <= AT_ONCE_IF else FIRST_SOURCES + about
        while wanted:
            began, before = time.monotonic(), history.read
            try:
                self._read_on(history, wanted)
                if history.read == before:
                    break
                larger = self._compared(history)
                found = larger if found is None or _is_better(larger.found, found.found, history) else found
            except (HistoryTooShort, ImpossibleChange, NotComputed) as error:  # perhaps of these sources alone
                why = error
                if history.read == before:
                    break
            self._each = max(LEAST_SECONDS, time.monotonic() - began) / history.read
            wanted = self._next(history)
        if found is None:
            raise why or NotComputed("no source was read")
        return found

    def _next(self, history: History) -> int:
        """The size of the next sample; 0 if it would hardly be larger, or there is no more time."""
        read, left = history.read, self._left
        least = self._each * (of := history.sources) * min(ENOUGH_DAYS, history.days) / history.days
        if read < of <= self._most and least < left:
            return of
        affordable = int((left - self._seconds * (1 - FOR_GROWING)) / self._each)
        larger = min(affordable, MOST_TIMES * read, self._most, of)
        return larger if larger >= LEAST_TIMES * read or larger == of > read else 0

    @property
    def _left(self) -> float:
        """Seconds."""
        return max(0.0, self._began + self._seconds - time.monotonic())

    def _read_on(self, history: History, wanted: int) -> None:
        """Read until that many sources have been read, or the time for it is over. Raises: NotComputed."""
        self._reading(lambda: history.read_on(wanted, self._began + self._seconds * FOR_READING))

    def _compared(self, history: History) -> OwnFleetComparison:
        """The comparison of the sources that have been read."""
        recorded = history.fleet()
        share, units = recorded.share, recorded.units
        changed = own_changes.made_to(recorded, self._changes)
        rests = rest_in(units, share), rest_in(self._changes.units or units, share)
        found = compare(recorded.fleet, changed, recorded.days, self._left, rests=rests)
        lacks = [*recorded.lacks, *samples.coarse(self._changes, share)]
        if share < samples.WHOLE:
            lacks = [samples.as_text(found, recorded.read, recorded.sources), *lacks]
        if found.days < recorded.days:
            lacks.append(f"the time was enough for the first {found.days} of {recorded.days} days")
        return OwnFleetComparison(samples.of_whole_fleet(found, share, units, self._changes), lacks)

    def _reading(self, read: Callable[[], Read]) -> Read:
        """Read in the time that is left. Raises: NotComputed, and what that raises."""
        with transaction.atomic():
            try:
                with at_most(left := max(LEAST_SECONDS, self._left), left):
                    return read()
            except TookTooLong as error:
                raise NotComputed(f"reading the history took more than {self._seconds:g} s") from error
            finally:
                transaction.set_rollback(True)  # the limit of a statement, which would hold until an edit is saved


def _is_better(larger: OutlookComparison, found: OutlookComparison, history: History) -> bool:
    """True if it has as many days; or has all sources, and days enough."""
    enough = min(ENOUGH_DAYS, history.days) if history.read == history.sources else found.days
    return larger.days >= min(enough, found.days)


def _about(changes: Changes, since: datetime) -> Q:
    """The assignments that a sample of the time `since` must have for these changes."""
    found = Q(source__name__in=[each for _, name in changes.added for each in own_changes.sources_called(name)])
    for name, _ in changes.policies:
        found |= Q(pk__in=_first(Assignment.objects.active().filter(policy__schedule__name=name), since))
    return found


def _first(assignments: QuerySet[Assignment], since: datetime) -> Any:
    """The first ones that have answered `since`: of others nothing is known that could be simulated."""
    answered = Case(When(last_contacted_at__gte=since, then=Value(0)), default=Value(1))
    return assignments.order_by(answered, "pk").values("pk")[:KEPT_OF_POLICY]


def effect_of(policy: Policy) -> Effect:
    """The effect of saving a policy with these periods and windows. Raises: ValueError with why it is not known."""
    schedule, active = policy.schedule, policy.assignments.active()
    before = Policy.objects.select_related("schedule").filter(pk=policy.pk).first()
    if before is None or before.problem or not active.exists():  # it is new, or paused
        return Effect()
    values = {"period": schedule.cron, "zone": schedule.zone, "windows": policy.window}
    changes = Changes(policies=((str(before), values | {each: getattr(policy, each) for each in SETTINGS}),))
    now, days = database_clock(), BEFORE_SAVING_DAYS
    about = Q(pk__in=_first(active, now - timedelta(days=days)))
    answer = _compared(now, days, changes, BEFORE_SAVING_SECONDS, MOST_BEFORE_SAVING, about)
    found = answer.found
    worse = [
        f"{each.name} would miss {several(each.after, 'period')} in place of {each.before:,}"
        for each in found.worse[:SHOWN]
    ]
    more = [f"and {len(found.worse) - SHOWN:,} more"] if len(found.worse) > SHOWN else []
    lacks = [f"not known: {each}" for each in answer.lacks]
    lines = [f"over {several(found.days, 'recorded day')}", *as_text(found), *worse, *more, *lacks]
    return Effect(lines, found.is_worse, mark_safe(chart_of(found)))  # noqa: S308 - its template escapes
