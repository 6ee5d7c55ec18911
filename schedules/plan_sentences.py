"""A plan in sentences: whether each batch completes in its window, and what to look out for. Pure."""

from dataclasses import dataclass, replace
from math import ceil
from zoneinfo import ZoneInfo

from jobs.formatting import span
from schedules.plan import DAYS, Curve, Plan, Verdict
from schedules.plan_queue import FAST

GOOD, WARNING, BAD = "good", "warning", "bad"


@dataclass(frozen=True)
class Sentence:
    """One sentence about a plan; `level` is GOOD, WARNING or BAD, or empty for what is only to be known."""

    level: str
    text: str


def verdict_of(plan: Plan) -> list[Sentence]:
    """Whether the batches of a schedule complete in their window, and from which pace that follows."""
    schedule, verdict = plan.schedule, plan.verdict
    if not schedule.events:
        return [Sentence("", "A batch has no events now: nothing is due to it.")]
    if verdict is None:
        return [
            Sentence(
                BAD,
                f"Its throttle {plan.gate.name} is paused (at most 0 in flight): no batch begins until it is raised.",
            )
        ]
    said = [_alone(plan, verdict)]
    if verdict.late and verdict.fits_alone:
        said.append(_late(plan, verdict))
    if verdict.busy > 1:
        who = who_limits(plan)
        said.append(
            Sentence(
                BAD,
                f"{_upper(who)} is asked for {verdict.busy:.1f} times what it lets through in these {DAYS} days: "
                "more and more is left over.",
            )
        )
    if plan.others:
        names = [other.name for other in plan.others]
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        said.append(Sentence("", f"It shares the throttle {plan.gate.name} with {shown}."))
    return [*said, Sentence("", _reckoned(plan))]


def _alone(plan: Plan, verdict: Verdict) -> Sentence:
    """A batch by itself: all that its own numbers decide."""
    schedule = plan.schedule
    at_most = "up to " if schedule.at_most else ""
    batch = f"{at_most}{schedule.events:,} event{'s' if schedule.events != 1 else ''}"
    window = span_of(schedule.window_for)
    if not verdict.fits_alone:
        return Sentence(
            BAD,
            f"Cannot complete: {batch} in {window} need {told_pace(verdict.needed)} a second, {_lets(plan, verdict)}. "
            f"A batch takes {_took(verdict.alone_for)}.",
        )
    if plan.gate.is_open:
        completes = (
            f" completes in its window of {window}" if window and not verdict.late else " starts at its instants"
        )
        return Sentence(GOOD if not verdict.late else "", f"Each batch of {batch}{completes}: nothing holds it back.")
    takes = f"Each batch of {batch} takes {_took(verdict.alone_for)} at {told_pace(verdict.pace)} a second"
    if not window:
        return Sentence("", f"{takes}. It has no window to complete in.")
    if not verdict.late:
        return Sentence(GOOD, f"{takes}: it completes in its window of {window}.")
    return Sentence("", f"{takes}, within its window of {window}.")


def _late(plan: Plan, verdict: Verdict) -> Sentence:
    first = verdict.late[0]
    at = f"{plan.at(first.trigger).astimezone(ZoneInfo(plan.schedule.zone)):%a %Y-%m-%d %H:%M}"
    over = span(max(ending.seconds for ending in verdict.late) - plan.schedule.window_for)
    count = f"{len(verdict.late):,} of {verdict.judged:,} batches" if verdict.judged > 1 else "its one batch"
    why = " behind what shares its throttle" if plan.others else ""
    return Sentence(
        BAD, f"But {count} in these {DAYS} days end after their window{why}, by up to {over}: first that of {at}."
    )


def _reckoned(plan: Plan) -> str:
    """Where the pace comes from."""
    schedule, gate = plan.schedule, plan.gate
    each = f"{schedule.seconds_each:.3g} s"
    took = (
        f"Nothing of it has succeeded yet: {each} each is assumed"
        if schedule.assumed
        else f"An event is in flight for {each}, the median of its latest"
    )
    limits = []
    if gate.in_flight is not None:
        rate = f" and {told_pace(gate.rate)} begin a second" if gate.rate is not None else ""
        limits.append(f"the throttle {gate.name} lets {gate.in_flight:,} be in flight{rate}")
    if gate.places is not None:
        limits.append(f"the workers that are alive run {gate.places:,} at once")
    elif _is_fastest(plan):
        limits.append("no worker serves its queue now, one is reckoned with")
    else:
        limits.append("no worker serves its queue now, so none is reckoned with")
    if _is_fastest(plan):
        limits.append(_fastest(plan))
    return f"{took}; {'; '.join(limits)}."


def who_limits(plan: Plan) -> str:
    """What limits the pace, as a sentence names it."""
    gate, each = plan.gate, plan.schedule.seconds_each
    if _is_fastest(plan):
        return "the pace of the workers"
    if gate.name and replace(gate, places=None).pace(each) <= gate.pace(each):
        return f"the throttle {gate.name}"
    return "the concurrency of the workers"


def told_load(plan: Plan, curve: Curve) -> str:
    """The busiest minute of a curve, when that is, and the mean, in the schedule's zone."""
    if not curve.peak:
        return "nothing in these seven days"
    busiest = plan.at(curve.busiest).astimezone(ZoneInfo(plan.schedule.zone))
    return f"{curve.peak:,.0f} in the busiest minute ({busiest:%a %H:%M}), {told_mean(curve.mean)} a minute on average"


def told_share(curve: Curve) -> str:
    """That others are counted in, and how many are its own in a minute; empty where it is alone."""
    return f"with all that shares its throttle; {max(curve.own):,.0f} of its own at most" if any(curve.others) else ""


def told_mean(mean: float) -> str:
    """A mean number of events, to two digits below ten."""
    return f"{mean:,.0f}" if mean >= 10 else f"{mean:.2g}"


def _lets(plan: Plan, verdict: Verdict) -> str:
    """What limits the pace, and to what."""
    return _fastest(plan) if _is_fastest(plan) else f"{who_limits(plan)} lets {told_pace(verdict.pace)} through"


def _is_fastest(plan: Plan) -> bool:
    """Whether nothing but what workers deliver at most limits the pace."""
    return plan.gate.pace(plan.schedule.seconds_each) == plan.gate.fastest


def _fastest(plan: Plan) -> str:
    """What workers deliver at most."""
    gate = plan.gate
    together = f", the {gate.workers:,} that are alive some {gate.fastest:,}" if gate.workers > 1 else ""
    return f"one worker delivers some {FAST:,} a second{together}"


def _took(seconds: float) -> str:
    """A duration that is never told as none."""
    return span(seconds) if seconds >= 0.1 else "less than 0.1 s"


def told_pace(a_second: float) -> str:
    """Events a second, to three digits, whole from 100 on; rounded up, so that a need is not told as met."""
    return f"{ceil(a_second):,}" if a_second >= 100 else f"{a_second:.3g}"


def span_of(seconds: int) -> str:
    """A whole duration: minutes up to two hours, since windows are told so; empty for none."""
    if seconds and seconds % 60 == 0 and seconds <= 7200:
        return f"{seconds // 60} min"
    return span(seconds) if seconds else ""


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
