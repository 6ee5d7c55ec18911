"""The backlog in Django's admin: what a person edits, and what machines wrote, read-only."""

from jobs.admin.api_tokens import ApiTokenAdmin
from jobs.admin.breakers import BreakerAdmin
from jobs.admin.decisions import DecisionAdmin
from jobs.admin.endpoints import EndpointAdmin
from jobs.admin.events import EventAdmin
from jobs.admin.queues import PausedQueueAdmin
from jobs.admin.records import AttemptEntryAdmin, BacklogRecordAdmin, WorkerAdmin
from jobs.admin.retry_policies import RetryPolicyAdmin
from jobs.admin.schedules import ScheduleAdmin
from jobs.admin.sweeps import SweepAdmin
from jobs.admin.throttles import LaneAdmin, ThrottleAdmin
from jobs.admin.triggers import TriggerAdmin

__all__ = [
    "ApiTokenAdmin",
    "AttemptEntryAdmin",
    "BacklogRecordAdmin",
    "BreakerAdmin",
    "DecisionAdmin",
    "EndpointAdmin",
    "EventAdmin",
    "LaneAdmin",
    "PausedQueueAdmin",
    "RetryPolicyAdmin",
    "ScheduleAdmin",
    "SweepAdmin",
    "ThrottleAdmin",
    "TriggerAdmin",
    "WorkerAdmin",
]
