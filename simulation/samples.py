"""Samples of a large fleet, small enough for the time that there is, and large enough to show a change."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from django.db.models import Count, Q, QuerySet, TextField
from django.db.models.functions import MD5, Cast

from jobs.conf import PROGRAM
from simulation.changes import Changes
from simulation.what_if import NotComputed, Outlook, OutlookComparison
from sources.models import Assignment

MOST_OFF = Fraction(1, 20)
"""The largest deviation of the number of units or sources in a sample, as a share."""
TRIED_TIMES = 10
"""A sample of so many times the usual number of sources is tried, for fewer days; a larger one takes too long."""
WHOLE = Fraction(1)
REMEDY = (
    "try a larger change, such as half or twice the units, or more sources at a time; or run "
    f"`{PROGRAM} simulate --from-history 28`, which takes all sources and the time that they need"
)


@dataclass(frozen=True)
class SampleRequest:
    """A sample of about `most` sources, for the changes to it. `always`: assignments whose sources are in it anyway,
    such as what a change is about.
    """

    most: int
    always: Q | None = None
    changes: Changes = field(default_factory=Changes)

    def of(self, related: QuerySet[Assignment], units: int) -> tuple[QuerySet[Assignment], Fraction]:
        """The assignments of the sample's sources, which are chosen by a hash of their ids; and its share of the fleet.
        Raises: NotComputed."""
        sources = related.aggregate(number=Count("source_id", distinct=True))["number"]
        share = share_for(sources, units, self.most, self.changes)
        if share == WHOLE:
            return related, share
        by_source = related.order_by().values("source_id").annotate(assignments=Count("pk"))
        turns = by_source.order_by(MD5(Cast("source_id", TextField())), "source_id")
        chosen = Q(source_id__in=turns.values("source_id")[: -(-sources * share // 1)])
        if self.always is not None:
            chosen |= Q(source_id__in=related.order_by().filter(self.always).values("source_id"))
        return related.filter(chosen), share


def share_for(sources: int, units: int, most: int, changes: Changes) -> Fraction:
    """The share of a fleet of so many sources and units to simulate: whole units, near `most` sources, and such that
    the change has its size. Raises: NotComputed if that would be far too many.
    """
    if sources <= most:
        return WHOLE
    usual = max(1, units * most // sources)
    numbers = _numbers(changes, units)
    nearest = sorted(range(-(-usual // 2), units + 1), key=lambda each: (each > usual, abs(each - usual)))
    kept = next(each for each in nearest if _shows(Fraction(each, units), numbers))
    share = Fraction(kept, units)
    if kept > usual and sources * share > TRIED_TIMES * most:
        raise NotComputed(
            f"no sample of {TRIED_TIMES * most:,} of the {sources:,} sources, with its share of the {units:,} units, "
            f"shows such a change in its true size: {REMEDY}"
        )
    return share


def _numbers(changes: Changes, units: int) -> list[int]:
    """All that a sample must have its share of."""
    then = changes.units or units
    return [then, then - units, *(number for number, _ in changes.added)]


def _shows(share: Fraction, numbers: Iterable[int]) -> bool:
    return all(abs(round(each * share) - each * share) <= MOST_OFF * abs(each * share) for each in numbers)


def in_sample(changes: Changes, share: Fraction) -> Changes:
    """The changes to a sample of this share."""
    units = changes.units and round(changes.units * share)
    return Changes(units, changes.policies, tuple((round(number * share), like) for number, like in changes.added))


def of_whole_fleet(found: OutlookComparison, share: Fraction, changes: Changes) -> OutlookComparison:
    """The difference in a sample with the units of the whole fleet, and those at work."""
    if share == WHOLE:
        return found
    units = round(found.now.units / share)
    return replace(found, now=_of_all(found.now, share, units), then=_of_all(found.then, share, changes.units or units))


def _of_all(found: Outlook, share: Fraction, units: int) -> Outlook:
    return replace(found, units=units, busy=[round(each / float(share), 3) for each in found.busy])
