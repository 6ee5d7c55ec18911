"""What a priority may be: higher runs first.

A person gives one from -MAX_PRIORITY to MAX_PRIORITY. A record that is to go before all others once, as the
re-check of what was just woken, has FIRST_IN_LINE added to its own until its next attempt has ended.
"""

MAX_PRIORITY = 100_000
FIRST_IN_LINE = 1_000_000
_BETWEEN = FIRST_IN_LINE // 2
LEAST, GREATEST = -_BETWEEN, FIRST_IN_LINE + _BETWEEN
"""What the table takes: priorities are added to one another, as an origin's and that of a person's request."""

USUAL = f"CASE WHEN b.priority > {_BETWEEN} THEN b.priority - {FIRST_IN_LINE} ELSE b.priority END"
"""`usual` of the record `b`, in SQL."""


def first_in_line(priority: int) -> int:
    """The priority of a record that goes before all others."""
    return priority if priority > _BETWEEN else priority + FIRST_IN_LINE


def usual(priority: int) -> int:
    """The record's own priority, without what was added to it."""
    return priority - FIRST_IN_LINE if priority > _BETWEEN else priority
