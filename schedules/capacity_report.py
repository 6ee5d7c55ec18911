"""A capacity check as text: its messages, and the plan that `--json` and the API return. Pure."""

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from math import ceil

from external.durations import span
from external.formatting import several, some_of
from schedules.capacity import MINUTES, Capacity

GOOD, WARNING, BAD = "good", "warning", "bad"


@dataclass(frozen=True)
class PlanMessage:
    """A sentence about a plan. `level`: good, warning, bad, or empty for mere information."""

    level: str
    text: str


@dataclass(frozen=True)
class PlanVerdict:
    """`needed_pace`: events a second; `batch_takes`, `longest`: seconds; `busy`: share of the time asked for."""

    needed_pace: float
    batch_takes: float
    batches: int
    batches_too_late: int
    first_too_late: datetime | None
    longest: float | None
    busy: float


@dataclass(frozen=True)
class PlanCurve:
    """Events a minute over the days: the busiest minute, the mean, and the busiest minute of each hour."""

    peak: float
    busiest_minute: datetime | None
    mean: float
    busiest_minute_of_each_hour: list[float]


@dataclass(frozen=True)
class Plan:
    """The load of the next seven days, with the schedules that share its throttle, and whether batches complete in
    their window.

    `pace`: events a second that get through. `verdict` null: its throttle is paused.
    """

    schedule: str
    start: datetime
    next_triggers: list[datetime]
    events: int
    shares_its_throttle_with: list[str]
    seconds_each: float
    seconds_each_is_assumed: bool
    pace: float
    verdict: PlanVerdict | None
    load: PlanCurve
    messages: list[PlanMessage]


def messages(found: Capacity) -> list[PlanMessage]:
    """The messages: the verdict first, whether each batch completes in its window; then warnings."""
    schedule, throttle = found.demand.schedule, found.limits.throttle
    report = _verdict(found)
    if throttle and found.others:
        report.append(PlanMessage("", f"It shares the throttle {throttle.name} with {some_of(found.others)}."))
    shortest = min((second - first).total_seconds() for first, second in pairwise(found.next_triggers))
    if (window := schedule.window_for) > shortest:
        overlap = f"while an earlier batch is unfinished, a trigger is to {schedule.get_overlap_display()}"
        longer = f"Its window of {span(window)} is longer than the {span(shortest)} between two triggers: {overlap}."
        report.append(PlanMessage(WARNING, longer))
    if not schedule.enabled:
        report.append(PlanMessage(WARNING, "It is paused: none of this happens until it is resumed."))
    return report


def _verdict(found: Capacity) -> list[PlanMessage]:
    demand, schedule = found.demand, found.demand.schedule
    if not demand.events:
        return [PlanMessage("", "A batch has no events now: nothing is due.")]
    if not found.pace:
        return [
            PlanMessage(BAD, f"No batch begins: {found.limited_by} is paused (at most 0 in flight) until it is raised.")
        ]
    batch = f"{'up to ' if schedule.provider else ''}{several(demand.events, 'event')}"
    took = span(found.batch_takes) if found.batch_takes >= 0.1 else "less than 0.1 s"
    takes = f"Each batch of {batch} takes {took} at {_rate(found.pace)} a second"
    if found.needed_pace > found.pace:
        need = f"Cannot complete: {batch} in {span(demand.window)} need {_rate(found.needed_pace)} a second"
        report = [
            PlanMessage(BAD, f"{need}, {found.limited_by} lets {_rate(found.pace)} through. A batch takes {took}.")
        ]
    elif not demand.window:
        report = [PlanMessage("", f"{takes}. It has no window to complete in.")]
    elif not found.late:
        report = [PlanMessage(GOOD, f"{takes}: it completes in its window of {span(demand.window)}.")]
    else:
        first = found.late[0][0].astimezone(schedule.period.tzinfo)
        over = span(max(seconds for _, seconds in found.late) - demand.window)
        count = f"{len(found.late):,} of {len(found.ended):,} batches in these 7 days end after their window"
        why = " behind others that share its throttle" if found.others else ""
        report = [
            PlanMessage(BAD, f"{takes}, but {count}{why}, by up to {over}: first that of {first:%a %Y-%m-%d %H:%M}.")
        ]
    if found.busy > 1:
        more = (
            f"{found.limited_by[:1].upper()}{found.limited_by[1:]} is asked for {found.busy:.1f} times what it can take"
        )
        report.append(PlanMessage(BAD, f"{more} in these 7 days: more and more is left over."))
    basis = "the median of its latest" if demand.is_measured else "assumed, since none of its events has succeeded yet"
    worker = "" if found.limits.workers else "; no worker serves its queue now, one is assumed"
    return [*report, PlanMessage("", f"An event takes {demand.seconds_each:.3g} s, {basis}{worker}.")]


def plan_of(found: Capacity) -> Plan:
    demand, load = found.demand, found.load
    longest = max((seconds for _, seconds in found.ended), default=None)
    first = found.late[0][0] if found.late else None
    late = len(found.late)
    verdict = PlanVerdict(found.needed_pace, found.batch_takes, len(found.ended), late, first, longest, found.busy)
    busiest = found.busiest if any(load) else None
    return Plan(
        demand.schedule.name, found.start, found.next_triggers, demand.events, found.others, demand.seconds_each,
        not demand.is_measured, found.pace, verdict if found.pace else None,
        PlanCurve(max(load), busiest, sum(load) / MINUTES, found.columns(MINUTES // 60)), messages(found),
    )  # fmt: skip


def _rate(a_second: float) -> str:
    """Events a second, to three digits, whole from 100 on; rounded up, so that a need is never shown as met."""
    return f"{ceil(a_second):,}" if a_second >= 100 else f"{a_second:.3g}"
