"""The settings of the backlog: `settings.JOBS`, with defaults for those that it leaves out.

JOBS = {
    "QUEUES": {"default": {"concurrency": 4}},  # also such as "checks": {"concurrency": 200, "feeds": "default"}
    "LEASE_SECONDS": 60,
    "PROGRAM": "manage.py",  # how messages name the command line
    "WAKE": "listen",  # or "poll": no LISTEN, no prepared statements, nothing that needs a dedicated session
    "KEEP_FINISHED_DAYS": 90,
    "CONSIDERING": False,  # log the records that each claim considered, and the key that decided
    "KEEP_LOG_DAYS": 14,
    "SWEEP_MAX_RECORDS": 10_000,  # of the progressive schedule, a sweep
    "BREAKER_AFTER": 3,  # failures in a row of a breaker's target that open it
    "BREAKER_PROBE_SECONDS": 60,  # to the first trial; 1, 1, 2, 3, 5 … times that between trials
    "BREAKER_LONGEST_SECONDS": 900,
}
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


@dataclass(frozen=True)
class QueueRule:
    """The way in which one worker process serves a queue.

    `concurrency`: the number of its records that run at once. `feeds`: a queue for which this one makes records ready;
    this one is claimed from only while that queue is short of ready records (look-ahead); questions that hang take none
    of these places.
    """

    name: str
    concurrency: int
    feeds: str | None = None


def _settings() -> dict[str, Any]:
    found: dict[str, Any] = getattr(settings, "JOBS", {})
    return found


PROGRAM: str = _settings().get("PROGRAM", "manage.py")


def _number(name: str, default: float, *, above: float | None = None) -> float:
    """Raises: ImproperlyConfigured for a number below 1, or one that is not above `above`."""
    number = float(_settings().get(name, default))
    if not (number >= 1 if above is None else number > above):
        limit = "at least 1" if above is None else f"above {above:g}"
        raise ImproperlyConfigured(f"JOBS[{name!r}] must be {limit}, not {number:g}")
    return number


def lease_seconds() -> float:
    """The life of a claim without a renewal."""
    return _number("LEASE_SECONDS", 60)


def deadline_seconds() -> float:
    """The time after a worker sent its last renewal at which it stops a run, or does not begin it: two thirds of a
    lease.
    """
    return lease_seconds() * 2 / 3


def heartbeat_seconds() -> float:
    """The interval of a worker's renewals: a quarter of a lease, so three renewals may fail before the lease does."""
    return lease_seconds() / 4


def guard_seconds() -> float:
    """The interval at which a worker looks for runs that are past their deadline."""
    return min(0.5, lease_seconds() / 24)


def ending_seconds() -> float:
    """The time for a stopped program to end before it is killed: half of the rest of a lease after its deadline, and at
    most as long as a worker waits for it at a shutdown.
    """
    return min(8.0, (lease_seconds() - deadline_seconds()) / 2)


def listens() -> bool:
    """True if workers sleep on LISTEN and prepare statements; else they poll, as through a transaction pooler.

    Raises: ImproperlyConfigured for anything but "listen" and "poll".
    """
    wake = _settings().get("WAKE", "listen")
    if wake not in ("listen", "poll"):
        raise ImproperlyConfigured(f"JOBS['WAKE'] is 'listen' or 'poll', not {wake!r}")
    return bool(wake == "listen")


def keep_finished() -> timedelta:
    """The retention of finished records and their attempts."""
    return timedelta(days=_number("KEEP_FINISHED_DAYS", 90, above=0))


def considering() -> bool:
    """True if the log of decisions also contains the records that each claim considered."""
    return bool(_settings().get("CONSIDERING", False))


def keep_log() -> timedelta:
    """The retention of the log of decisions."""
    return timedelta(days=_number("KEEP_LOG_DAYS", 14, above=0))


def sweep_max_records() -> int:
    """The most records that a sweep of the progressive schedule takes."""
    return int(_number("SWEEP_MAX_RECORDS", 10_000))


def breaker_after() -> int:
    """The number of failures in a row, all its own fault, that open a breaker."""
    return int(_number("BREAKER_AFTER", 3))


def breaker_probe_seconds() -> float:
    """The time from the opening of a breaker to its first trial."""
    return _number("BREAKER_PROBE_SECONDS", 60)


def breaker_longest_seconds() -> float:
    """The longest time between trials."""
    return _number("BREAKER_LONGEST_SECONDS", 900)


def feeding_queues() -> list[str]:
    """The queues that only make records ready for others: a record that runs there has not begun its work."""
    return [rule.name for rule in queue_rules().values() if rule.feeds]


def queue_rules() -> dict[str, QueueRule]:
    """The queues by name, in the order in which a worker serves them."""
    rows = _settings().get("QUEUES", {"default": {"concurrency": 4}})
    return {name: QueueRule(name, int(row.get("concurrency", 1)), row.get("feeds")) for name, row in rows.items()}
