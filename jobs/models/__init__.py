"""The tables of the backlog. docs/glossary.md has the words."""

from jobs.models.history import Attempt, AttemptEntry, Decision, Level
from jobs.models.record import BacklogRecord
from jobs.models.retry_policy import Origin, RetryPolicy, Sweep
from jobs.models.throttle import Breaker, Lane, Throttle
from jobs.models.worker import PausedQueue, Worker

__all__ = [
    "Attempt",
    "AttemptEntry",
    "BacklogRecord",
    "Breaker",
    "Decision",
    "Lane",
    "Level",
    "Origin",
    "PausedQueue",
    "RetryPolicy",
    "Sweep",
    "Throttle",
    "Worker",
]
