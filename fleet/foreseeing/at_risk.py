"""Assignments that will probably miss their period: computed every quarter of an hour, and kept as one row.

A look includes the assignments that are due and whose period ends within 36 hours. The queue is run forward as
`runs.py` does; an assignment is at risk if it is protected in fewer than half of the runs. Early in a day many of those
that miss are not among them: each is protected in most of the runs, since it is not known yet which will not come.
Their number is known better than their names, so it is kept as well.
"""

import random
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from declarations.surfaces.patience import TookTooLong, at_most
from fleet.foreseeing.contenders import DueAssignment, due_assignments, queue_state
from fleet.foreseeing.durations import drawing, known_durations
from fleet.foreseeing.habits import Past
from fleet.foreseeing.runs import Runs, foresee, units_for
from jobs.clock import database_clock
from sources.models import Foresight

BUDGET_SECONDS = 40.0
"""The limit of one look in seconds: half of the time after reading is for the runs, of which a large fleet gets
fewer."""
READING_SECONDS = 10.0
"""The limit of each of its statements, and the time after which it begins no other one."""
MOST_KEPT = 200
ENOUGH = 0.99
RNG = random.Random()  # noqa: S311 - no secret comes of it


def keep(now: datetime | None = None, rng: random.Random = RNG) -> int:
    """Look at all due assignments, and keep those at risk. Returns their number."""
    instant, began = now or database_clock(), time.monotonic()
    try:
        with at_most(READING_SECONDS, READING_SECONDS) as check_time:
            state = queue_state(instant)
            due = due_assignments(instant, check_time) if state is not None else []
            draw = drawing(*known_durations())
    except TookTooLong as error:
        return _write(instant, began, because=str(error))
    if state is None:
        return _write(instant, began, because="no worker is alive that backs up, or everything is on hold")
    contenders = [each.contender for each in due]
    others = _others(due)
    ends = began + BUDGET_SECONDS
    runs = foresee(state, contenders, draw, others, rng, until=(time.monotonic() + ends) / 2)
    units = None
    if due:
        units = units_for(ENOUGH, state, contenders, draw, others, rng, until=ends)
    found = sorted(_at_risk(due, runs), key=lambda each: each["probability"])
    return _write(instant, began, len(due), found, state.units, units, unnamed=unnamed_of(due, runs))


def _others(due: Sequence[DueAssignment]) -> dict[bool, Past]:
    habits = [each.contender.habit for each in due if not each.contender.habit.always]
    return {
        False: [day for each in habits for day in each.week[-5:]][:2_000],
        True: [day for each in habits for day in each.weekend[-2:]][:2_000],
    }


def _at_risk(due: Sequence[DueAssignment], runs: Runs) -> Iterator[dict[str, Any]]:
    for each in due:
        probability = runs.probability(each.contender.id)
        if probability < 0.5:
            there = runs.found[each.contender.id].there
            no_unit = there >= runs.number / 2
            why = "probably no unit is free in time" if no_unit else "it is probably away, or leaves too early"
            yield {
                "assignment": each.contender.id, "source": each.source, "source_id": each.source_id,
                "policy": each.policy, "probability": round(probability, 2), "why": why,
                "until": each.contender.period_ends.isoformat(),
            }  # fmt: skip


def unnamed_of(due: Sequence[DueAssignment], runs: Runs) -> int:
    """The number of those that are not at risk one by one, and still miss their period in a run, on average."""
    others = [each.contender.id for each in due if runs.probability(each.contender.id) >= 0.5]
    return round(sum(1.0 - runs.found[each].protected / runs.number for each in others))


def _write(
    now: datetime, began: float, looked_at: int = 0, found: Sequence[dict[str, Any]] = (), units: int = 0,
    needed: int | None = None, because: str = "", unnamed: int = 0,
) -> int:  # fmt: skip
    values = {
        "at": now, "seconds": round(time.monotonic() - began, 2), "looked_at": looked_at, "number": len(found),
        "at_risk": list(found[:MOST_KEPT]), "units": units, "units_needed": needed, "because": because,
        "unnamed": unnamed,
    }  # fmt: skip
    Foresight.objects.update_or_create(pk=1, defaults=values)
    return len(found)
