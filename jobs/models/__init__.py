"""The tables of the backlog. docs/glossary.md has the words."""

from jobs.models.attempt import Attempt, AttemptEntry
from jobs.models.backlog_record import BacklogRecord
from jobs.models.breaker import Breaker
from jobs.models.decision import Decision, Level
from jobs.models.origin import Origin
from jobs.models.paused_queue import PausedQueue
from jobs.models.retry_policy import RetryPolicy
from jobs.models.sweep import Sweep
from jobs.models.throttle import Lane, Throttle
from jobs.models.worker import Worker

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
