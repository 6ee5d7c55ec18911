"""The backlog in Django's admin: what a person edits, and what machines wrote, read-only."""

from operations.admin.breakers import BreakerAdmin
from operations.admin.decisions import DecisionAdmin
from operations.admin.endpoints import EndpointAdmin
from operations.admin.queues import PausedQueueAdmin
from operations.admin.records import BacklogRecordAdmin
from operations.admin.retry_policies import RetryPolicyAdmin
from operations.admin.schedules import ScheduleAdmin
from operations.admin.throttles import LaneAdmin, ThrottleAdmin
from operations.admin.triggers import TriggerAdmin
from operations.admin.workers import SweepAdmin, WorkerAdmin

__all__ = [
    "BacklogRecordAdmin",
    "BreakerAdmin",
    "DecisionAdmin",
    "EndpointAdmin",
    "LaneAdmin",
    "PausedQueueAdmin",
    "RetryPolicyAdmin",
    "ScheduleAdmin",
    "SweepAdmin",
    "ThrottleAdmin",
    "TriggerAdmin",
    "WorkerAdmin",
]
