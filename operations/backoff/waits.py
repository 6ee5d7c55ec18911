"""The waits that a rule gives after each failure, from the shortest to the longest that there can be. Pure."""

from collections.abc import Iterator
from functools import cache

from jobs import retries
from jobs.durations import span
from jobs.retries import Failure, Rule, tiers
from jobs.retries.phases import phase
from operations.backoff.series import MOST_FAILURES, giving_up

SHOWN = 10


class _Least:
    """Draws the least each time."""

    def uniform(self, a: float, b: float, /) -> float:
        return a


class _Most:
    """Draws the most each time."""

    def uniform(self, a: float, b: float, /) -> float:
        return b


RECORDS = 20_000
"""Among so many successive ids there are phases within a ten-thousandth of 0 and of 1."""


@cache
def outermost_records() -> tuple[int, int]:
    """The ids of a record with a phase of almost 0 and of one of almost 1."""
    return min(range(RECORDS), key=phase), max(range(RECORDS), key=phase)


def bounds(rule: Rule, failures: int) -> tuple[float, float]:
    """The shortest and the longest wait, in seconds, of a record that is on time and has failed so often.

    To a hundredth of a second, from a minute on to a second.
    """
    waits = [
        retries.delay(rule, Failure(failures, record_id=record_id), rng)
        for record_id in outermost_records()
        for rng in (_Least(), _Most())
    ]
    least, most = (round(wait, 2 if wait < 60 else 0) for wait in (min(waits), max(waits)))
    return least, most


def first_waits(rule: Rule, shown: int = SHOWN) -> list[tuple[float, float]]:
    """The bounds of the first waits: `shown` of them, or fewer if it gives up by count before."""
    last = shown if rule.max_failures is None else min(shown, rule.max_failures - 1)
    return [bounds(rule, number) for number in range(1, last + 1)]


def describe_waits(rule: Rule, shown: int = SHOWN) -> str:
    """The first waits for people: `1 min, 2 min`, as ranges, `1 min – 3 min`, or the sweeps that are waited for."""
    if rule.waits_for_sweeps:
        return f"by sweeps: {', '.join(_told_tiers())}"
    return ", ".join(told_range(*pair) for pair in first_waits(rule, shown)) or "none: the first failure is the last"


def told_range(least: float, most: float) -> str:
    """A wait for people, or the range that it lies in: `1 min – 2 min`, `up to 2 min`."""
    low, high = span(least), span(most)
    if low == high:
        return low
    return f"{low} – {high}" if least else f"up to {high}"


def _told_tiers() -> Iterator[str]:
    for tier in tiers.TIERS:
        yield f"every {span(tier.every)} up to {span(tier.max_age)}"


def describe_limits(rule: Rule) -> str:
    """When a record gives up, in a few words, without working out when that will be."""
    if rule.waits_for_sweeps and rule.give_up_after is None:
        return f"after {span(tiers.OLDEST)}"
    ends = [f"at failure {rule.max_failures:,}"] if rule.max_failures is not None else []
    if rule.give_up_after is not None:
        ends.append(f"after {span(rule.give_up_after)}")
    return " or ".join(ends) or "never"


def describe_giving_up(rule: Rule) -> str:
    """When a record gives up, as a sentence."""
    if rule.max_failures == 1:
        return "It gives up at the first failure: nothing is retried."
    if rule.waits_for_sweeps and rule.give_up_after is None:
        return f"It gives up when no sweep covers it any more, after {span(tiers.OLDEST)}."
    if rule.max_failures is None and rule.give_up_after is None:
        return "It never gives up."
    last = giving_up(rule)
    if last is not None:
        return f"It gives up at failure {last.failures:,}, about {span(last.after)} after the first."
    ends = [f"at failure {rule.max_failures:,}"] if rule.max_failures is not None else []
    if rule.give_up_after is not None:
        ends.append(f"at the first failure later than {span(rule.give_up_after)} after the first")
    return f"It gives up {' or '.join(ends)}, which is more than {MOST_FAILURES:,} failures away."
