"""The settings of the backlog: `settings.JOBS`, with defaults.

JOBS = {
    "QUEUES": {"availability": {"concurrency": 200, "feeds": "backups"}, "backups": {"concurrency": 16}},
    "LEASE_SECONDS": 60,
}
"""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


@dataclass(frozen=True)
class QueueRule:
    """How one worker process serves a queue.

    `concurrency`: records of it run at once. `feeds`: a queue that this one makes records ready for; this one is
    claimed from only while that queue is short of ready records (look-ahead).
    """

    name: str
    concurrency: int
    feeds: str | None = None


def _settings() -> dict[str, Any]:
    found: dict[str, Any] = getattr(settings, "JOBS", {})
    return found


def lease_seconds() -> float:
    """How long a claim lasts without a renewal. Raises: ImproperlyConfigured when it is not above 1."""
    seconds = float(_settings().get("LEASE_SECONDS", 60))
    if not seconds >= 1:
        raise ImproperlyConfigured(f"JOBS['LEASE_SECONDS'] must be at least 1 second, not {seconds}")
    return seconds


def heartbeat_seconds() -> float:
    """How often a worker renews: four times a lease, so three renewals may fail before the lease does."""
    return lease_seconds() / 4


def feeding_queues() -> list[str]:
    """The queues that only make records ready for others: what runs there is under way to its work, not at it."""
    return [rule.name for rule in queue_rules().values() if rule.feeds]


def queue_rules() -> dict[str, QueueRule]:
    """The queues by name, in the order in which a worker serves them."""
    rows = _settings().get("QUEUES", {"default": {"concurrency": 4}})
    return {name: QueueRule(name, int(row.get("concurrency", 1)), row.get("feeds")) for name, row in rows.items()}
