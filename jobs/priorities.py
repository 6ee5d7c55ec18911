"""Priorities and their range: higher runs first.

A user gives one from -MAX_PRIORITY to MAX_PRIORITY. A record that must go before all others has more than that added:
FIRST_IN_LINE, until its next attempt has ended; or WOKEN, until the attempt that follows its answer has ended. Woken
records are asked even without a shortage (`jobs/worker/claimer.py`).
"""

MAX_PRIORITY = 100_000
FIRST_IN_LINE = 1_000_000
WOKEN = 1_300_000
_BETWEEN = FIRST_IN_LINE // 2
WOKEN_FROM = (FIRST_IN_LINE + WOKEN) // 2
"""The least priority of woken records."""
LEAST, GREATEST = -_BETWEEN, FIRST_IN_LINE + _BETWEEN
"""The range of the table: priorities are added to one another, such as an origin's and that of a user's request."""

USUAL = f"""CASE WHEN b.priority >= {WOKEN_FROM} THEN b.priority - {WOKEN}
            WHEN b.priority > {_BETWEEN} THEN b.priority - {FIRST_IN_LINE} ELSE b.priority END"""
"""`usual` of the record `b`, in SQL."""


def first_in_line(priority: int) -> int:
    """The priority of a record that goes before all others."""
    return priority if priority > _BETWEEN else priority + FIRST_IN_LINE


def woken(priority: int) -> int:
    """The priority of a record whose subject was woken: before all others, and asked without a shortage."""
    return usual(priority) + WOKEN


def is_woken(priority: int) -> bool:
    return priority >= WOKEN_FROM


def usual(priority: int) -> int:
    """The record's usual priority, without additions."""
    if is_woken(priority):
        return priority - WOKEN
    return priority - FIRST_IN_LINE if priority > _BETWEEN else priority
