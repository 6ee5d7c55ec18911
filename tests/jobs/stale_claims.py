"""Claims that are no longer those of the record: of an earlier attempt, of another worker, with another token."""

from uuid import uuid4

STALE = {
    "attempt": lambda record: record._replace(attempt=record.attempt - 1),
    "worker": lambda record: record._replace(worker_id=record.worker_id + 1),
    "token": lambda record: record._replace(lease_token=uuid4()),
}
