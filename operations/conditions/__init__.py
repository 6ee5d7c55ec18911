"""Conditions of the queue and of the installation, and the examination of all declared conditions, in any app.

queues        of the summary of the backlog: its workers, queues, breakers and dead letters
records       records that are set aside, or do not progress
schedules     schedules and triggers that emit nothing
work          leases, periodic tasks, sweeps
tables        autovacuum, and holders of old snapshots
installation  migrations, the server, connections, clocks
"""

from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial

from django.core.checks import ERROR
from django.utils.module_loading import autodiscover_modules

from jobs.clock import database_clock
from operations import checks
from operations.backlog import IN_NEED
from operations.backlog.summary import summary
from operations.conditions import installation, queues, records, schedules, tables, work  # noqa: F401 - declare their conditions
from operations.finding import (
    CONDITIONS,
    COUNT_TO,
    LATE,
    READING_SECONDS,
    Condition,
    ExaminedCondition,
    Finding,
    Look,
    Severity,
)

PATIENCE_SECONDS = 10.0
"""The `Look.reading_seconds` of the doctor, which looks once: enough for 10,000 crons of which no two are equal."""


def names() -> list[str]:
    """The kinds of findings, in the order in which they are examined."""
    autodiscover_modules("conditions")
    return [SETTINGS.kind, *CONDITIONS]


def examine(skip: Collection[str] = (), now: datetime | None = None) -> list[ExaminedCondition]:
    """Examine all conditions except those named in `skip`. Settings that cannot work end it early: the rest reads them.

    `now` (aware) replaces the database's clock in tests. Raises: django.db.Error when the database is away.
    """
    autodiscover_modules("conditions")
    settings = SETTINGS.summed_up(_settings())  # it asks no database
    if any(message.level >= ERROR for message in (*checks.check_database(), *checks.check_backlog())):
        return [settings]
    look = look_at(now or database_clock(), lambda at: next((ask(at) for ask in LATE), None), PATIENCE_SECONDS)
    found = [] if SETTINGS.kind in skip else [settings]
    return found + [each.examined(look) for each in CONDITIONS.values() if each.kind not in skip]


def look_at(
    now: datetime, late: Callable[[datetime], datetime | None], reading_seconds: float = READING_SECONDS
) -> Look:
    """A look at everything, at that instant (aware)."""
    return Look(now, partial(summary, bound=COUNT_TO, without=IN_NEED, ended=False), late, reading_seconds)


def _settings() -> list[Finding]:
    """The system checks again (`operations/checks.py`), the dangerous settings of django-q2 among them."""
    makers = (checks.check_database, checks.check_backlog, checks.check_registry, checks.check_periodic_tasks)
    messages = sorted((message for make in makers for message in make()), key=lambda message: -message.level)
    return [
        Finding(
            "", str(each.id), None, Severity.PROBLEM if each.level >= ERROR else Severity.WARNING,
            f"{each.id} {each.msg}", str(each.hint),
        )
        for each in messages
    ]  # fmt: skip


SETTINGS = Condition("settings", lambda look: _settings(), "no system check complains")
