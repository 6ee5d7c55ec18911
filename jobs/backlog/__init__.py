"""What an operator, or another program, does to the backlog: put records there, cancel, retry, pause, look.

Each verb is one transaction and safe beside running workers.
"""

from jobs.backlog.cancelling import CancelResult, cancel
from jobs.backlog.enqueueing import NewRecord, enqueue
from jobs.backlog.pausing import pause_queue, resume_queue
from jobs.backlog.retrying import RetryResult, retry
from jobs.backlog.rows import in_batches
from jobs.backlog.summary import QueueSummary, Summary, WorkerSummary, summary

__all__ = [
    "CancelResult",
    "NewRecord",
    "QueueSummary",
    "RetryResult",
    "Summary",
    "WorkerSummary",
    "cancel",
    "enqueue",
    "in_batches",
    "pause_queue",
    "resume_queue",
    "retry",
    "summary",
]
