"""Durations of future backups: the last duration, times a ratio of two recent consecutive backups of one source; for
first ones, the durations of first ones.
"""

import random
from collections.abc import Callable

from django.db import connection

# Served by the index of the backups' assignments: the latest backups, and the duration of the one before each. Not of
# those that a clock was set during, or that ended by a clock that was ahead.
DURATIONS = """
SELECT extract(epoch FROM latest.ended_at - latest.started_at)::float8, before.seconds
  FROM (SELECT * FROM sources_backup ORDER BY id DESC LIMIT 500) AS latest
  LEFT JOIN LATERAL (
       SELECT extract(epoch FROM b.ended_at - b.started_at)::float8 AS seconds
         FROM sources_backup b
        WHERE b.assignment_id = latest.assignment_id AND b.started_at < latest.started_at
          AND b.started_at <= b.ended_at AND b.ended_at <= statement_timestamp()
        ORDER BY b.started_at DESC
        LIMIT 1) AS before ON TRUE
 WHERE latest.started_at <= latest.ended_at AND latest.ended_at <= statement_timestamp()
"""


def known_durations() -> tuple[list[float], list[float]]:
    """Ratios of consecutive backups of one source, and durations of first ones, among the latest backups."""
    with connection.cursor() as cursor:
        cursor.execute(DURATIONS)
        rows = cursor.fetchall()
    return [took / before for took, before in rows if before], [took for took, before in rows if before is None]


def drawing(ratios: list[float], firsts: list[float]) -> Callable[[float | None, random.Random], float]:
    """A function that draws the duration of a backup from the seconds of the last one; None for a first backup."""

    def draw(expected: float | None, rng: random.Random) -> float:
        if expected is None:
            return rng.choice(firsts) if firsts else 3_600.0
        return expected * (rng.choice(ratios) if ratios else 1.0)

    return draw
