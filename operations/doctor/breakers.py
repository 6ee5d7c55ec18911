"""Open circuit breakers: a repository, or whatever else one guards, that fails for everybody."""

from datetime import datetime

from django.db.backends.utils import CursorWrapper

from jobs.durations import span
from jobs.states import Status, WaitingFor
from operations.doctor.asking import COUNT_TO, counted, rows
from operations.doctor.finding import Finding, listed, ok, warning

# Breakers are few; those that wait for one are counted by `backlog_held`.
OPEN = f"""
SELECT b.key, b.title, b.failures, b.trials, EXTRACT(EPOCH FROM %(now)s - b.opened_at)::float8, b.last_error,
       (SELECT count(*)
          FROM (SELECT
                  FROM jobs_backlogrecord
                 WHERE status = {Status.WAITING} AND waiting_for = {WaitingFor.BREAKER} AND breaker_id = b.id
                 LIMIT {COUNT_TO + 1}) AS held)
  FROM jobs_breaker b
 WHERE b.opened_at IS NOT NULL
 ORDER BY b.opened_at
 LIMIT 100
"""

DO = (
    "mend what the error says (is the repository mounted, full, read-only?); a trial then closes it by itself: "
    "`manage.py breakers probe KEY` has that done now, `manage.py breakers close KEY` lets everything go at once"
)


def _plain(text: str) -> str:
    """What engines and people wrote cannot steer the terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


def open_breakers(cursor: CursorWrapper, now: datetime) -> Finding:
    """Whether records are held back by breakers, how many, and for how long."""
    found = rows(cursor, OPEN, {"now": now})
    if not found:
        return ok("open_breakers", "no breaker is open", open=[])
    told, numbers = [], []
    for key, title, failures, trials, seconds, error, waiting in found:
        said = (error.splitlines() or [""])[0]
        told.append(
            f"{_plain(title or key)} ({_plain(key)}) has failed {failures} times in a row and is held back for "
            f"{span(seconds)}, {trials} trials in vain; records that wait: {counted(waiting)}; "
            f"the last error: {_plain(said):.200}"
        )
        numbers.append({"key": key, "failures": failures, "trials": trials, "open_for": seconds, "waiting": waiting})
    return warning("open_breakers", listed(told), DO, open=numbers)
