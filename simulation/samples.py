"""Samples of a fleet that is too large to be simulated in the time that there is.

A sample is some of the sources, each with all its policies, and as large a share of the units as these sources have of
the load: by their number alone, a sample with a few long backups too many would look overloaded. A share of units is
rarely a whole number. It is rounded up, and each unit rests after each copy, for long enough that all units together
do that share of the work.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import md5
from heapq import nsmallest
from math import ceil, inf

from django.db.models import Q, QuerySet

from simulation.changes import Changes
from simulation.what_if import Outlook, OutlookComparison
from sources.models import Assignment

WHOLE = Fraction(1)
MOST_OFF = Fraction(1, 20)
"""The share by which the number of added sources may be off in a sample without a note."""


@dataclass(frozen=True)
class SampleRequest:
    """A sample of at most `most` sources. `always`: assignments whose sources are in it anyway, such as what a change
    is about.
    """

    most: float = inf
    always: Q | None = None

    def chosen(self, active: QuerySet[Assignment], sources: Collection[int]) -> list[int]:
        """The sources of these assignments to read, in this order. A hash of their ids shuffles them, the same way each
        time, so that any number of them is a sample.
        """
        if self == ALL:
            return sorted(sources)  # neighbours have their rows together
        always = active.none() if self.always is None else active.order_by().filter(self.always)
        first = set(always.values_list("source_id", flat=True))
        most = max(len(first), int(min(self.most, len(sources))))
        return nsmallest(most, sources, key=lambda each: (each not in first, _hash(each), each))


ALL = SampleRequest()
"""All sources, however long they take."""


def _hash(source: int) -> bytes:
    return md5(str(source).encode(), usedforsecurity=False).digest()


def units_in(units: int, share: Fraction) -> int:
    """The units of a sample of this share."""
    return ceil(units * share)


def rest_in(units: int, share: Fraction) -> float:
    """The rest of each of its units after a copy, as a multiple of that copy's duration."""
    return float(units_in(units, share) / (units * share) - 1)


def in_sample(changes: Changes, share: Fraction) -> Changes:
    """The changes to a sample of this share."""
    units = changes.units and units_in(changes.units, share)
    return Changes(units, changes.policies, tuple((_added(number, share), like) for number, like in changes.added))


def _added(number: int, share: Fraction) -> int:
    return max(1, round(number * share))


def coarse(changes: Changes, share: Fraction) -> list[str]:
    """A sentence about each number of added sources that is another one in this sample."""
    return [
        f"the effect of {number:,} more like {like}, which are too few for a sample: shown is that of about "
        f"{round(_added(number, share) / share):,}"
        for number, like in changes.added
        if abs(_added(number, share) - number * share) > MOST_OFF * number * share
    ]


def as_text(found: OutlookComparison, read: int, of: int) -> str:
    """A sentence about a sample of `read` of the sources, with its error."""
    now, then, difference = (f"{100 * each:.1f}" for each in found.margins)
    return (
        f"all but a sample: {read:,} of {of:,} sources, with their share of the units by load; sources and periods are "
        f"counted in it, units in the whole fleet. The protected shares of all sources are most likely within {now} "
        f"points of these as it is and {then} with the change, and their difference within {difference}"
    )


def of_whole_fleet(found: OutlookComparison, share: Fraction, units: int, changes: Changes) -> OutlookComparison:
    """The difference that a sample shows, with the `units` of the whole fleet, and those at work."""
    if share == WHOLE:
        return found
    return replace(found, now=_of_all(found.now, share, units), then=_of_all(found.then, share, changes.units or units))


def _of_all(found: Outlook, share: Fraction, units: int) -> Outlook:
    return replace(found, units=units, busy=[round(each / float(share), 3) for each in found.busy])


def in_turn(sources: Sequence[int], at_once: int) -> list[Sequence[int]]:
    """The same sources in pieces of `at_once`."""
    return [sources[start : start + at_once] for start in range(0, len(sources), at_once)]
