"""What to look out for in a schedule that may be saved all the same. Pure."""

from itertools import pairwise

from jobs.formatting import span
from schedules.plan import Plan
from schedules.plan_sentences import WARNING, Sentence, span_of, verdict_of

HELPED = 2.0
"""Stagger is proposed when it makes the busiest minute smaller by so many times."""

OVERLAPS = {
    "allow": "batches run beside one another",
    "queue": "a trigger whose earlier batch is unfinished waits for it",
    "skip": "a trigger whose earlier batch is unfinished emits nothing",
}


def sentences_of(plan: Plan, overlap: str = "allow", *, enabled: bool = True) -> list[Sentence]:
    """Everything that is said about a plan: its verdict, then what to look out for."""
    found = verdict_of(plan)
    if warning := longer_than_the_period(plan, overlap):
        found.append(Sentence(WARNING, warning))
    if plan.postponed:
        found.append(
            Sentence("", "It has no trigger in the next seven days: these are the seven from its next one on.")
        )
    if proposal := _proposed(plan):
        found.append(Sentence("", proposal))
    if not enabled:
        found.append(Sentence(WARNING, "It is paused: none of this happens until it is resumed."))
    return found


def longer_than_the_period(plan: Plan, overlap: str) -> str:
    """That the window is longer than the time between two of the next triggers; empty when it is not."""
    if not plan.schedule.window_for:
        return ""
    shortest = min((second - first).total_seconds() for first, second in pairwise(plan.trigger_at))
    if plan.schedule.window_for <= shortest:
        return ""
    window = span_of(plan.schedule.window_for)
    told = f"Its window of {window} is longer than the {span(shortest)} between two triggers"
    return f"{told}: {OVERLAPS.get(overlap, OVERLAPS['allow'])}."


def _proposed(plan: Plan) -> str:
    if plan.spread is None or plan.schedule.is_spread or plan.bunched.peak < HELPED * plan.spread.peak:
        return ""
    return (
        f"Spread evenly, the busiest minute would have {plan.spread.peak:,.0f} events in place of "
        f"{plan.bunched.peak:,.0f}."
    )
