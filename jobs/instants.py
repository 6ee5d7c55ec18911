"""Instants and days that every program can read: finite, and of the years 1 to 9999, as Python's are.

PostgreSQL has `infinity` and the year 294276, and the tables accept rows of other programs. One such row ended its
reader with a traceback, and with it everything else that was read.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime

from django.db.migrations import RunSQL
from django.db.models import CheckConstraint, Expression, F, Q
from django.db.models.functions import Greatest, Least
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def readable(name: str, *instants: str, days: Iterable[str] = ()) -> CheckConstraint:
    """The check that `instants` and `days`, columns, hold nothing that Python cannot read. `name`: a sentence."""
    within = Q()
    for columns, first, last in ((instants, FIRST, LAST), (days, date.min, date.max)):
        if found := sorted(columns):
            # one node over all columns costs a third of two comparisons for each
            within &= Q(GreaterThanOrEqual(_over(Least, found), first), LessThanOrEqual(_over(Greatest, found), last))
    message = "an instant or a day is infinite, or not of the years 1 to 9999"
    return CheckConstraint(name=name, condition=within, violation_error_message=message)


def _over(function: type[Least | Greatest], columns: list[str]) -> Expression | F:
    return function(*columns) if len(columns) > 1 else F(columns[0])


def mended(table: str, *instants: str, days: Iterable[str] = ()) -> RunSQL:
    """An operation of a migration: values in these columns that cannot be read become the nearest readable ones, so
    that records which wait for ever still do, and can be named.
    """
    bounds = dict.fromkeys(instants, ("timestamptz '0001-01-01 00:00+00'", "timestamptz '9999-12-31 23:59:59+00'"))
    bounds |= dict.fromkeys(days, ("date '0001-01-01'", "date '9999-12-31'"))
    changes = ", ".join(
        f"{name} = CASE WHEN {name} IS NOT NULL THEN LEAST(GREATEST({name}, {first}), {last}) END"
        for name, (first, last) in bounds.items()
    )
    unreadable = " OR ".join(f"{name} < {first} OR {name} > {last}" for name, (first, last) in bounds.items())
    return RunSQL(f"UPDATE {table} SET {changes} WHERE {unreadable}", RunSQL.noop)
