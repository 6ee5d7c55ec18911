"""The effect of a change on the fleet of this installation, within a time: for pages and answers."""

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.safestring import mark_safe

from declarations.surfaces.patience import TookTooLong, at_most
from external.formatting import several
from fleet.dry_runs import Effect
from jobs.clock import database_clock
from operations.limits import LimitOfOneProcess
from simulation import own_changes, samples
from simulation.changes import SECONDS as SETTINGS
from simulation.changes import Changes
from simulation.chart import chart_of
from simulation.own_history import RecordedFleet, recorded_fleet
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
MOST_SOURCES, MOST_BEFORE_SAVING = 2_000, 150
"""A larger fleet is simulated as a sample of this size."""
KEPT_OF_POLICY = 10
"""Sources of a policy that is changed, which are in any sample."""
SHOWN = 10


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
    """Compare the last `days` days, or as many of them as the time is enough for.

    Raises: ImpossibleChange; HistoryTooShort; NotComputed.
    """
    own_changes.check(changes)
    return _compared(now, days, changes, seconds, MOST_SOURCES, _about(changes))


def _compared(now: datetime, days: int, changes: Changes, seconds: float, most: int, always: Q) -> OwnFleetComparison:
    began = time.monotonic()
    recorded = _recorded(now, days, changes.units, seconds, SampleRequest(most, always, began + seconds * FOR_READING))
    fleet, share, units = recorded.fleet, recorded.share, recorded.units
    changed = own_changes.made_to(recorded, changes)
    left = max(0.0, began + seconds - time.monotonic())
    rests = rest_in(units, share), rest_in(changes.units or units, share)
    found = compare(fleet, changed, recorded.days, left, rests=rests)
    lacks = [*recorded.lacks, *samples.coarse(changes, share)]
    if share < samples.WHOLE:
        lacks = [samples.as_text(found, recorded.read, recorded.sources), *lacks]
    if found.days < recorded.days:
        lacks.append(f"the time was enough for the first {found.days} of {recorded.days} days")
    return OwnFleetComparison(samples.of_whole_fleet(found, share, units, changes), lacks)


def _recorded(now: datetime, days: int, units: int | None, seconds: float, sampling: SampleRequest) -> RecordedFleet:
    with transaction.atomic():
        try:
            with at_most(seconds, seconds):
                return recorded_fleet(now, days, units, sampling)
        except TookTooLong as error:
            raise NotComputed(f"reading the history took more than {seconds:g} s") from error
        finally:
            transaction.set_rollback(True)  # the limit of a statement, which would hold until an edit is saved


def _about(changes: Changes) -> Q:
    """The assignments that a sample must have for these changes."""
    found = Q(source__name__in=[name for _, name in changes.added])
    for name, _ in changes.policies:
        found |= Q(pk__in=_first(Assignment.objects.active().filter(policy__schedule__name=name)))
    return found


def _first(assignments: QuerySet[Assignment]) -> Any:
    return assignments.order_by("pk").values("pk")[:KEPT_OF_POLICY]


def effect_of(policy: Policy) -> Effect:
    """The effect of saving a policy with these periods and windows. Raises: ValueError with why it is not known."""
    schedule, active = policy.schedule, policy.assignments.active()
    before = Policy.objects.select_related("schedule").filter(pk=policy.pk).first()
    if before is None or before.problem or not active.exists():  # it is new, or paused
        return Effect()
    values = {"period": schedule.cron, "zone": schedule.zone, "windows": policy.window}
    changes = Changes(policies=((str(before), values | {each: getattr(policy, each) for each in SETTINGS}),))
    about = Q(pk__in=_first(active))
    answer = _compared(database_clock(), BEFORE_SAVING_DAYS, changes, BEFORE_SAVING_SECONDS, MOST_BEFORE_SAVING, about)
    found = answer.found
    worse = [
        f"{each.name} would miss {several(each.after, 'period')} in place of {each.before:,}"
        for each in found.worse[:SHOWN]
    ]
    more = [f"and {len(found.worse) - SHOWN:,} more"] if len(found.worse) > SHOWN else []
    lacks = [f"not known: {each}" for each in answer.lacks]
    lines = [f"over {several(found.days, 'recorded day')}", *as_text(found), *worse, *more, *lacks]
    return Effect(lines, found.is_worse, mark_safe(chart_of(found)))  # noqa: S308 - its template escapes
