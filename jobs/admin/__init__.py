"""The backlog in Django's admin: what a person edits, and what machines wrote, read-only."""

from jobs.admin.decisions import DecisionAdmin
from jobs.admin.queues import PausedQueueAdmin
from jobs.admin.records import AttemptEntryAdmin, BacklogRecordAdmin, WorkerAdmin
from jobs.admin.rules import RetryPolicyAdmin, ScheduleAdmin, ThrottleAdmin

__all__ = [
    "AttemptEntryAdmin",
    "BacklogRecordAdmin",
    "DecisionAdmin",
    "PausedQueueAdmin",
    "RetryPolicyAdmin",
    "ScheduleAdmin",
    "ThrottleAdmin",
    "WorkerAdmin",
]
