"""The tables of the backlog, a module each. docs/glossary.md has the words."""

from jobs.models.api_token import ApiToken, IdempotencyKey, Scope
from jobs.models.attempt import Attempt, AttemptEntry
from jobs.models.backlog_record import BacklogRecord
from jobs.models.breaker import Breaker
from jobs.models.decision import Decision, Level
from jobs.models.endpoint import Endpoint, EndpointKind, SigningSecret
from jobs.models.event import Event
from jobs.models.lane import Lane
from jobs.models.paused_queue import PausedQueue
from jobs.models.rate_count import RateCount
from jobs.models.retry_policy import RetryPolicy
from jobs.models.schedule import Late, Overlap, Schedule, Stagger
from jobs.models.sweep import Sweep
from jobs.models.throttle import Throttle
from jobs.models.trigger import Trigger
from jobs.models.worker import Worker

__all__ = [
    "ApiToken",
    "Attempt",
    "AttemptEntry",
    "BacklogRecord",
    "Breaker",
    "Decision",
    "Endpoint",
    "EndpointKind",
    "Event",
    "IdempotencyKey",
    "Lane",
    "Late",
    "Level",
    "Overlap",
    "PausedQueue",
    "RateCount",
    "RetryPolicy",
    "Schedule",
    "Scope",
    "SigningSecret",
    "Stagger",
    "Sweep",
    "Throttle",
    "Trigger",
    "Worker",
]
