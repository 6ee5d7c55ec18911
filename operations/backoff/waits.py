"""A rule as text: the waits after each failure, from the shortest to the longest, and when it gives up. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from external.durations import span
from jobs import retries
from jobs.retries import Failure, Rule, tiers
from jobs.retries.phases import phase
from operations.backoff.study import MOST_FAILURES, Study, giving_up

SHOWN = 10
RECORDS = 20_000
"""A number of successive ids among which there are phases within a ten-thousandth of 0 and of 1."""


@dataclass(frozen=True)
class _ExtremeRng:
    """Draws the least each time, or the most."""

    most: bool

    def uniform(self, a: float, b: float, /) -> float:
        return b if self.most else a


@cache
def outermost_records() -> tuple[int, int]:
    """The ids of a record with a phase of almost 0 and of one of almost 1."""
    return min(range(RECORDS), key=phase), max(range(RECORDS), key=phase)


def bounds(rule: Rule, failures: int) -> tuple[float, float]:
    """The shortest and the longest wait, in seconds, of a record that is on time and has failed this often.

    To a hundredth of a second, from a minute on to a second.
    """
    waits = [
        retries.delay(rule, Failure(failures, record_id=record_id), _ExtremeRng(most))
        for record_id in outermost_records()
        for most in (False, True)
    ]
    least, most = (round(wait, 2 if wait < 60 else 0) for wait in (min(waits), max(waits)))
    return least, most


def first_waits(rule: Rule, shown: int = SHOWN) -> list[tuple[float, float]]:
    """The bounds of the first waits: `shown` pairs, or fewer if the rule gives up by count before."""
    last = shown if rule.max_failures is None else min(shown, rule.max_failures - 1)
    return [bounds(rule, number) for number in range(1, last + 1)]


def describe_waits(rule: Rule, shown: int = SHOWN) -> str:
    """The first waits: `1 min, 2 min`, as ranges, `1 min – 3 min`, or the sweeps that are waited for."""
    if rule.waits_for_sweeps:
        return "by sweeps: " + ", ".join(f"every {span(each.every)} up to {span(each.max_age)}" for each in tiers.TIERS)
    found = []
    for least, most in first_waits(rule, shown):
        low, high = span(least), span(most)
        found.append(low if low == high else f"{low} – {high}" if least else f"up to {high}")
    return ", ".join(found) or "none: the first failure is the last"


def describe_limits(rule: Rule, by_age: str = "after") -> str:
    """The condition on which a record gives up, in a few words, without computing when that will be."""
    if rule.waits_for_sweeps and rule.give_up_after is None:
        return f"after {span(tiers.OLDEST)}"
    ends = [f"at failure {rule.max_failures:,}"] if rule.max_failures is not None else []
    ends += [f"{by_age} {span(rule.give_up_after)}"] if rule.give_up_after is not None else []
    return " or ".join(ends) or "never"


def describe_giving_up(rule: Rule) -> str:
    """A sentence about when a record gives up."""
    if rule.max_failures == 1:
        return "It gives up at the first failure: nothing is retried."
    if rule.waits_for_sweeps and rule.give_up_after is None:
        return f"It gives up when no sweep covers it any more, after {span(tiers.OLDEST)}."
    if rule.max_failures is None and rule.give_up_after is None:
        return "It never gives up."
    if last := giving_up(rule):
        return f"It gives up at failure {last[0]:,}, about {span(last[1])} after the first."
    limits = describe_limits(rule, "at the first failure later than")
    if rule.give_up_after is not None:
        limits += " after the first"
    return f"It gives up {limits}, which is more than {MOST_FAILURES:,} failures away."


def title_of(studies: Sequence[Study]) -> str:
    return f"Backoff: {' next to '.join(study.name for study in studies)}"


def describe(studies: Sequence[Study]) -> str:
    """The content of a picture as text, for users who cannot see it."""
    return " ".join(f"{each.name}: {_sentences(each)} {describe_giving_up(each.rule)}" for each in studies)


def _sentences(study: Study) -> str:
    if not study.waits:
        return f"{len(study.jobs):,} jobs fail together."
    return (
        f"{len(study.jobs):,} jobs fail together, and again at each of up to {len(study.waits):,} retries. Half "
        f"of them have had their last retry by {span(study.horizon)}; the busiest minute has {study.peak:,} "
        f"retries, {study.idle_share:.0%} of the minutes have none; waits vary by {study.wait_cv:.2f}."
    )


def _calls(study: Study, hour: int) -> str:
    found = study.calls_per_hour[hour]
    return "too many to count" if found is None else f"{found:.1f}"


FIGURES: tuple[tuple[str, str, Callable[[Study], str]], ...] = (
    ("horizon", "half of the jobs are through by", lambda study: span(study.horizon)),
    ("peak a minute", "busiest minute", lambda study: f"{study.peak:,}"),
    ("after three", "busiest after the first three retries", lambda study: f"{study.peak_after_three:,}"),
    ("idle minutes", "minutes without a retry", lambda study: f"{study.idle_share:.1%}"),
    ("variation of waits", "variation of waits", lambda study: f"{study.wait_cv:.3f}"),
    ("calls in hour 1", "calls per job, first hour of an outage", lambda study: _calls(study, 1)),
    ("hour 24", "calls per job, its 24th hour", lambda study: _calls(study, 24)),
)
"""Figures of a study: the heading in a table, the label in a picture, and the function. The horizon is the median of
the last retry; calls are those of one job, in an outage of a day.
"""

HEADERS = ("", *(heading for heading, *_ in FIGURES))


def row(study: Study) -> tuple[str, ...]:
    """The cells under HEADERS."""
    return (study.name, *(figure(study) for *_, figure in FIGURES))
