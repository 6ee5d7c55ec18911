"""Helpers of the tests of the doctor: one finding, and workers that serve."""

from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.models import Worker
from jobs.outcomes import Outcome, Succeeded
from operations import conditions
from operations.finding import ExaminedCondition, Severity
from tests.factories import make_worker

OK, WARNING, PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM

LEASE = timedelta(seconds=60)


def succeed(run: Run) -> Outcome:
    return Succeeded()


async def succeed_async(run: Run) -> Outcome:
    return Succeeded()


def finding(name: str, now: datetime | None = None) -> ExaminedCondition:
    """The finding of the doctor under that name."""
    [found] = conditions.examine(skip=set(conditions.names()) - {name}, now=now)
    assert found.name == name
    return found


def run(sql: str, *values: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)


def in_time(**fields: float) -> datetime:
    """That long after the present of the database."""
    return database_clock() + timedelta(**fields)


def serve(**queues: int) -> Worker:
    return make_worker(queues=queues, heartbeat_at=database_clock())
