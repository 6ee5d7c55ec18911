"""Operations of an operator, or of another program, on the backlog: put records there, cancel, retry, pause, hold.

Each verb is one transaction and safe while workers run.
"""

from jobs.backlog.cancelling import CancelResult, cancel
from jobs.backlog.enqueueing import NewRecord, enqueue
from jobs.backlog.pausing import held, hold, pause_queue, release, resume_queue
from jobs.backlog.retrying import RetryResult, retry
from jobs.backlog.rows import in_batches

__all__ = [
    "CancelResult",
    "NewRecord",
    "RetryResult",
    "cancel",
    "enqueue",
    "held",
    "hold",
    "in_batches",
    "pause_queue",
    "release",
    "resume_queue",
    "retry",
]
