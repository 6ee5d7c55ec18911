"""The backlog in Django's admin: what a person edits, and what machines wrote, read-only."""

from jobs.admin.breakers import BreakerAdmin
from jobs.admin.decisions import DecisionAdmin
from jobs.admin.queues import PausedQueueAdmin
from jobs.admin.records import AttemptEntryAdmin, BacklogRecordAdmin, WorkerAdmin
from jobs.admin.retry_policies import RetryPolicyAdmin
from jobs.admin.rules import ScheduleAdmin, ThrottleAdmin
from jobs.admin.sweeps import SweepAdmin

__all__ = [
    "AttemptEntryAdmin",
    "BacklogRecordAdmin",
    "BreakerAdmin",
    "DecisionAdmin",
    "PausedQueueAdmin",
    "RetryPolicyAdmin",
    "ScheduleAdmin",
    "SweepAdmin",
    "ThrottleAdmin",
    "WorkerAdmin",
]
