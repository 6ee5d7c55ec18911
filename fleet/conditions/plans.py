"""Plans of assignments that cannot be right: windows that never open, due assignments without a record, odd dates.

This uses no code of the plans and the emitter, which it judges: rows, and the calendar.
"""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from jobs.states import UNFINISHED
from operations.conditions.schedules import EnabledSchedule, enabled
from operations.finding import Case, Look, Severity, condition, rows
from sources.domain.windows import Window
from sources.models import Policy

HAS_ASSIGNMENTS = "SELECT FROM (SELECT FROM sources_assignment LIMIT 1) AS first"
HAS_DATES = f"{HAS_ASSIGNMENTS} UNION ALL SELECT FROM sources_repository WHERE pruned_at > %(soon)s"
"""Copies and rounds of checks go with their assignments; a repository stays."""
A_CLOCK_AHEAD = timedelta(hours=1)

SCHEDULES_OF_POLICIES = "SELECT schedule_id FROM sources_policy"

_known: dict[str, tuple[datetime, str]] = {}
"""Window → the instant until which it need not be read again, and its problem."""


@condition(
    "every window opens",
    "windows never open: {}",
    "correct the window or the excluded dates of the policy",
    Severity.PROBLEM,
    lambda look: ("SELECT FROM sources_policy", {}),
)
def windows(look: Look) -> Iterator[Case]:
    """Windows of enabled policies. Those for which there was no time are reported as at the last look."""
    policies = Policy.objects.filter(schedule__enabled=True).exclude(window=[], excluded_dates=[], copy_window=[])
    names = ("pk", "schedule__name", "schedule__zone", "window", "excluded_dates", "copy_window")
    found = [
        (f"{kind}:{pk}", name, zone, *each)
        for pk, name, zone, window, excluded, for_copies in policies.values_list(*names)
        for kind, *each in (("window", window, excluded), ("copy_window", for_copies, ()))
    ]
    until = time.monotonic() + look.reading_seconds
    seen = dict[str, tuple[datetime, str]]()
    for subject, name, zone, window, excluded in found:
        key = repr((zone, window, excluded))
        known = seen.get(key) or _known.get(key, (look.now, ""))
        if known[0] <= look.now and time.monotonic() < until:
            known = _read(zone, window, excluded, look.now)
        seen[key] = known
        if known[1]:
            which = "window" if subject.startswith("window") else "window for copies"
            yield Case(subject, f"{name}: its {which} never opens: {known[1]}", None, name)
    _known.clear()
    _known.update(seen)


def _read(zone: str, rows: Any, excluded: Any, now: datetime) -> tuple[datetime, str]:
    try:
        opening = Window.parse(rows, zone, excluded).current_or_next(now)
    except Exception as error:  # no query is involved: its window cannot be read, or never opens
        return now, str(error)
    return (opening.closes_at if opening else now + timedelta(days=1)), ""


def _schedules_of_policies(now: datetime) -> Iterator[int]:
    return (pk for (pk,) in rows(SCHEDULES_OF_POLICIES))


def _of_policies(look: Look) -> Iterator[EnabledSchedule]:
    """The enabled schedules of policies: those of events may be twenty times as many."""
    known = set(look.of(_schedules_of_policies))
    return (each for each in enabled(look) if each.pk in known)


# The records of its period are looked up last, and by the key that an emission has: joined, one assignment without a
# record makes the planner read all records that there are.
DUE = f"""
SELECT count(*), min(s.name)
  FROM unnest(%(schedules)s::bigint[], %(began)s::timestamptz[]) AS n(schedule_id, began)
  JOIN sources_policy p ON p.schedule_id = n.schedule_id
  JOIN sources_assignment a ON a.policy_id = p.id
  JOIN sources_source s ON s.id = a.source_id
 WHERE s.paused_at IS NULL AND s.retired_at IS NULL
   AND (a.next_backup_at IS NULL OR a.next_backup_at < %(late_before)s) AND a.inserted_at < %(late_before)s
   AND NOT EXISTS (
       SELECT FROM jobs_backlogrecord b
        WHERE b.kind = 'backup' AND b.subject = 'assignment:' || a.id AND b.status IN {tuple(map(int, UNFINISHED))})
   AND (SELECT b.id
          FROM jobs_backlogrecord b
         WHERE b.origin_id = n.schedule_id AND b.trigger_at = n.began AND b.subject = 'assignment:' || a.id
         LIMIT 1) IS NULL
HAVING count(*) > 0
"""


@condition(
    "every due assignment has a record",
    "{}",
    "look at the logs of the workers; if they have nothing, *back up now* puts a source on the backlog",
    severity=Severity.PROBLEM,
    alert_where=lambda look: (HAS_ASSIGNMENTS, {}),
)
def due(look: Look) -> Iterator[Case]:
    """Assignments that are due, and have neither a record nor had one in this period. None while nothing is late."""
    if look.late_before is None:
        return
    read = [(each.pk, each.began) for each in _of_policies(look) if each.began]
    facts = {"schedules": [pk for pk, _ in read], "began": [began for _, began in read]}
    for count, name in rows(DUE, late_before=look.late_before, **facts):
        yield Case("assignments", f"due assignments have no record: {count:,}, such as that of {name}")


# OFFSET 0: their sources are read for those that are found, mostly none.
ODD_DATES = """
SELECT 'assignments', count(*), min(s.name)
  FROM (SELECT a.source_id
          FROM unnest(%(schedules)s::bigint[], %(next_at)s::timestamptz[]) AS n(schedule_id, next_at)
          JOIN sources_policy p ON p.schedule_id = n.schedule_id
          JOIN sources_assignment a ON a.policy_id = p.id
         WHERE a.next_backup_at > n.next_at OR a.last_backup_at > %(soon)s OR a.overdue_since > %(soon)s
            OR a.drill_planned_at > %(soon)s OR a.to_copy_since > %(soon)s
        OFFSET 0) AS found
  JOIN sources_source s ON s.id = found.source_id
 WHERE s.paused_at IS NULL AND s.retired_at IS NULL
HAVING count(*) > 0
UNION ALL
SELECT 'check', NULL, 'the check of assignment ' || min(assignment_id) FROM sources_checkround
 WHERE planned_at > %(soon)s HAVING count(*) > 0
UNION ALL
SELECT 'copy', NULL, 'the copy of assignment ' || min(assignment_id) FROM sources_copy
 WHERE planned_at > %(soon)s HAVING count(*) > 0
UNION ALL
SELECT 'prune', NULL, 'the last prune of repository ' || min(name) FROM sources_repository
 WHERE pruned_at > %(soon)s HAVING count(*) > 0
"""


@condition(
    "the dates of assignments are plausible",
    "implausible dates: {}",
    "a clock was ahead, or rows were written by hand: correct these rows",
    severity=Severity.PROBLEM,
    alert_where=lambda look: (HAS_DATES, {"soon": look.now + A_CLOCK_AHEAD}),
)
def dates(look: Look) -> Iterator[Case]:
    """Dates of assignments beyond their period, or that only a clock which was ahead can have written."""
    read = [(each.pk, each.next_at) for each in _of_policies(look) if each.next_at]
    facts = {"schedules": [pk for pk, _ in read], "next_at": [next_at for _, next_at in read]}
    soon = look.now + A_CLOCK_AHEAD
    for subject, count, text in rows(ODD_DATES, soon=soon, **facts):
        if count:
            yield Case(subject, f"those of {count:,} assignments, such as that of {text}")
        else:
            yield Case(subject, f"{text} is dated in the future")
