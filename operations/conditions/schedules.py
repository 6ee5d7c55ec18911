"""Schedules that do not fire, and triggers that put nothing on the backlog.

This uses no code of the emitter, which it judges: rows, and the calendar.
"""

import time
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from external.formatting import moment
from operations.finding import Case, Look, Severity, condition, rows
from schedules.cron import Period
from schedules.models import Overlap

MOST = 100

ENABLED = """
SELECT o.id, o.name, s.cron, o.zone, s.next_trigger_at
  FROM schedules_schedule s
  JOIN jobs_origin o ON o.id = s.origin_id
 WHERE s.enabled
 ORDER BY o.id
"""


class EnabledSchedule(NamedTuple):
    """The instants at which its period began and the next begins, None if there was no time to read them; or the
    `error`.
    """

    pk: int
    name: str
    next_trigger_at: datetime | None
    began: datetime | None = None
    next_at: datetime | None = None
    error: str = ""


def enabled(look: Look) -> list[EnabledSchedule]:
    """All enabled schedules, read once for several conditions. A cron that many share is read once, too."""
    return look.once(enabled, lambda now: list(_enabled(now, look.reading_seconds)))


def _enabled(now: datetime, reading_seconds: float) -> Iterator[EnabledSchedule]:
    found = rows(ENABLED)
    until = time.monotonic() + reading_seconds
    read = dict[tuple[str, str], tuple[datetime | None, datetime | None, str]]()
    for pk, name, cron, zone, at in found:
        if (cron, zone) not in read and time.monotonic() < until:
            read[cron, zone] = _period_of(cron, zone, now)
        yield EnabledSchedule(pk, name, at, *read.get((cron, zone), ()))


def _period_of(cron: str, zone: str, now: datetime) -> tuple[datetime | None, datetime | None, str]:
    try:
        _, began, next_at = Period(cron, zone).around(now)
    except Exception as error:  # no query is involved: its cron or zone cannot be read
        return None, None, str(error)
    return began, next_at, ""


# Served by `trigger_unfinished`. A trigger of a schedule that queues may wait for the batch before it.
TRIGGERS = f"""
SELECT t.id, o.name, t.trigger_at, t.seen_at
  FROM schedules_trigger t
  JOIN schedules_schedule s ON s.origin_id = t.schedule_id
  JOIN jobs_origin o ON o.id = t.schedule_id
 WHERE t.finished_at IS NULL AND t.emitted_at IS NULL AND t.events = 0
   AND ((s.enabled AND s.overlap <> '{Overlap.QUEUE}' AND t.seen_at < %(late_before)s)
        OR (s.overlap = '{Overlap.ALLOW}' AND t.seen_at < %(now)s - interval '10 minutes'))
 ORDER BY t.trigger_at
 LIMIT {MOST}
"""


@condition(
    "every schedule and trigger can be read, and fires",
    "schedules emit nothing: {}",
    "correct these schedules: they are examined again within a minute. If nothing is wrong with them, the log of the "
    "workers has the error: is the same version installed on all hosts?",
    severity=Severity.PROBLEM,
    # a trigger of a schedule that was disabled since may wait, too
    alert_where=lambda look: ("SELECT FROM schedules_schedule", {}),
)
def schedules(look: Look) -> Iterator[Case]:
    """Enabled schedules that cannot be read, are late, or whose next trigger is not that of their cron; and triggers
    that emit nothing."""
    found = enabled(look)
    for each in found:
        if each.error:
            yield Case(f"unreadable:{each.pk}", f"{each.name}: it cannot be read: {each.error}", None, each.name)
    late = ((each, why) for each in found if (why := _why_not(each, look)))
    for each, why in islice(late, MOST):
        yield Case(f"schedule:{each.pk}", f"{each.name}: {why}", each.next_trigger_at, each.name)
    for pk, name, at, since in rows(TRIGGERS, now=look.now, late_before=look.late_before):
        text = f"{name}: its trigger of {moment(at)} UTC puts nothing on the backlog"
        yield Case(f"trigger:{pk}", text, since, name)


def _why_not(schedule: EnabledSchedule, look: Look) -> str:
    at = schedule.next_trigger_at
    if at is None:
        return "it has no next trigger"
    if look.late_before and at < look.late_before:
        return f"it should have fired at {moment(at)} UTC"
    if schedule.next_at and at > schedule.next_at:
        return f"its next trigger is {moment(at)} UTC, beyond that of its cron"
    return ""
