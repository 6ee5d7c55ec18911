"""The tables of the backlog. docs/glossary.md has the words."""

from jobs.models.history import Attempt, Decision, Level
from jobs.models.record import BacklogRecord
from jobs.models.retry_policy import Origin, RetryPolicy, Sweep
from jobs.models.throttle import Breaker, Lane, Throttle
from jobs.models.worker import Hold, PastHold, PausedQueue, Worker

__all__ = [
    "Attempt",
    "BacklogRecord",
    "Breaker",
    "Decision",
    "Hold",
    "Lane",
    "Level",
    "Origin",
    "PastHold",
    "PausedQueue",
    "RetryPolicy",
    "Sweep",
    "Throttle",
    "Worker",
]
