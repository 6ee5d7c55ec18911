"""The watch over the scheduler: whether it works at all, by what has to be true of its tables.

It is looked at each minute by a worker or qcluster, whichever comes first, so the death of either is noticed by the
other; that of both by the service of the dead-man ping. It uses no code of the emitter, the tick, the claims or the
plans: only SQL, and the calendar.

Something is late a minute after it should have happened. Of what is found in one round an alert is raised, and people
hear of it when the next round still finds it. After a time in which no process looked (a machine that slept, a database
that was away), nothing is late for two minutes.
"""

import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection
from django_q.models import Schedule as PeriodicTask

from alerting.models import AlertKind, Watch
from alerting.raising import Found
from alerting.watchdog_statements import ALL
from jobs import conf
from jobs.clock import boot_seconds
from jobs.models import Worker
from operations.periodic_tasks import WANTED, matched
from schedules.cron import Period
from schedules.models import Schedule
from sources.domain.windows import Window
from sources.models import Policy

LATE = timedelta(seconds=60)
TICK_LATE = timedelta(seconds=110)
"""qcluster ticks each minute, and up to half a minute later than it should."""
GRACE = timedelta(minutes=2)
STEP_SECONDS = 30.0
"""By which the database's clock and the boot clock may differ between two looks."""
CLOCK_SHOWN_FOR = timedelta(minutes=2)
READING_SECONDS = 0.3
"""Of a round, for crons, and as long for windows, once the database has answered. What is left is read by the next
round, which remembers what this one has read."""


def look(watch: Watch, now: datetime, boot: float | None = None) -> list[Found]:
    """What is broken at `now`. `boot`: the boot clock's seconds, for tests."""
    periods, unreadable = _periods(now)
    is_late = now - watch.resumed_at >= GRACE
    with connection.cursor() as cursor:
        cursor.execute("\nUNION ALL\n".join(ALL), _values(periods, now, is_late))
        found = [Found(AlertKind(kind), subject, name, text, since, policy)
                 for kind, subject, policy, name, since, text in cursor.fetchall()]  # fmt: skip
    return [
        *found,
        *unreadable,
        *_windows.look(now),
        *_tasks(now),
        *_clock.look(now, boot_seconds() if boot is None else boot),
    ]


class _Period(NamedTuple):
    """Of an enabled schedule: when its present period began, and when the next begins."""

    schedule: int
    began: datetime
    next_at: datetime


def _periods(now: datetime) -> tuple[list[_Period], list[Found]]:
    periods, unreadable = [], []
    rows = list(Schedule.objects.filter(enabled=True).values_list("pk", "name", "cron", "zone", "policy__pk"))
    until = time.monotonic() + READING_SECONDS
    for pk, name, cron, zone, policy in rows:
        if time.monotonic() >= until:
            break
        try:
            _, began, next_at = Period(cron, zone).around(now)
            periods.append(_Period(pk, began, next_at))
        except Exception as error:  # no database is asked: its cron or zone cannot be read
            unreadable.append(_schedule(pk, name, policy, f"it cannot be read: {error}"))
    return periods, unreadable


def _schedule(pk: int, name: str, policy: int | None, text: str) -> Found:
    return Found(AlertKind.SCHEDULE, f"unreadable:{pk}", name, text, policy=policy)


class _Windows:
    """What is known of each window: that it can be read and opens, until its opening is over, or what is wrong."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[datetime, str]] = {}

    def look(self, now: datetime) -> Iterable[Found]:
        """What is wrong with windows of enabled policies. Those for which there was no time are as they were."""
        policies = Policy.objects.filter(schedule__enabled=True).exclude(window=[], excluded_dates=[], copy_window=[])
        names = ("pk", "schedule", "schedule__name", "schedule__zone", "window", "excluded_dates", "copy_window")
        windows = [
            (pk, schedule, name, zone, *each)
            for pk, schedule, name, zone, window, excluded, for_copies in policies.values_list(*names)
            for each in ((window, excluded, "window"), (for_copies, (), "window for copies"))
        ]
        until = time.monotonic() + READING_SECONDS
        seen = dict[str, tuple[datetime, str]]()
        for pk, schedule, name, zone, window, excluded, title in windows:
            key = repr((zone, window, excluded))
            known = seen.get(key) or self._known.get(key, (now, ""))
            if known[0] <= now and time.monotonic() < until:
                known = _read(zone, window, excluded, now)
            seen[key] = known
            if known[1]:
                yield _schedule(schedule, name, pk, f"its {title} never opens: {known[1]}")
        self._known = seen


def _read(zone: str, rows: Any, excluded: Any, now: datetime) -> tuple[datetime, str]:
    """Until when a window need not be read again, and what is wrong with it."""
    try:
        opening = Window.parse(rows, zone, excluded).current_or_next(now)
    except Exception as error:  # no database is asked: its window cannot be read, or never opens
        return now, str(error)
    return (opening.closes_at if opening else now + timedelta(days=1)), ""


_windows = _Windows()


def _tasks(now: datetime) -> Iterable[Found]:
    """The rows of django-q2 that are gone, or will not run for longer than their interval."""
    found, _ = matched(PeriodicTask.objects.order_by("pk"))
    if not found:
        return  # none was installed: the ticks that are missing say so
    for wanted in WANTED:
        task = found.get(wanted.name)
        if task is None or task.repeats == 0 or not wanted.runs_as_it_should(task.next_run, now):
            text = "it is gone" if task is None else f"its next run is {task.next_run}"
            yield Found(AlertKind.WATCHDOG, f"task:{wanted.name}"[:200], f"the periodic task {wanted.name}", text)


def _values(periods: list[_Period], now: datetime, is_late: bool) -> dict[str, Any]:
    workers = Worker.alive(now).values_list("queues", flat=True)
    rules, served = conf.queue_rules(), sorted({name for queues in workers for name in queues})
    return {
        "now": now,
        "is_late": is_late,
        "late_before": now - LATE if is_late else None,
        "ticked_before": now - TICK_LATE,
        "silent_before": now - timedelta(seconds=conf.lease_seconds()),
        "lease": conf.lease_seconds(),
        "longest_probe": 2 * conf.breaker_longest_seconds(),
        "served": served,
        "fed": [rules[name].feeds if name in rules else None for name in served],
        "schedules": [period.schedule for period in periods],
        "began": [period.began for period in periods],
        "next_at": [period.next_at for period in periods],
    }


class _Clock:
    """Whether the database's clock goes on as the boot clock of this machine does. A step is shown for two minutes."""

    def __init__(self) -> None:
        self._last: tuple[datetime, float] | None = None
        self._shown: tuple[float, str] | None = None

    def look(self, now: datetime, boot: float) -> Iterable[Found]:
        last, self._last = self._last, (now, boot)
        if last is not None:
            passed, real = (now - last[0]).total_seconds(), boot - last[1]
            if abs(passed - real) > STEP_SECONDS:
                text = f"in {real:.0f} s it went on by {passed:.0f} s"
                self._shown = (boot, text)
        if self._shown is not None and boot - self._shown[0] <= CLOCK_SHOWN_FOR.total_seconds():
            yield Found(
                AlertKind.WATCHDOG, "watchdog:clock", "the clock of the database was set, or stands", self._shown[1]
            )


_clock = _Clock()
