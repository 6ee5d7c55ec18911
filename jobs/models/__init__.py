"""The tables of the backlog. docs/glossary.md has the words."""

from jobs.models.history import Attempt, Decision, Level
from jobs.models.policies import Breaker, Lane, Origin, RetryPolicy, Sweep, Throttle
from jobs.models.record import BacklogRecord
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
