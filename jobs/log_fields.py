"""The record that a log line is about: fields of each line that a handler writes, for logs in JSON."""

import logging
from contextvars import ContextVar

from jobs.outcomes import ClaimedRecord

handled: ContextVar[ClaimedRecord | None] = ContextVar("handled", default=None)
"""The record that runs in this thread or task, or ran there last."""


OF_PAYLOAD = ("title", "source")
"""The name for users, and the id of the source that a record is about."""


class OfRecord(logging.Filter):
    """Adds `record` (its id), `attempt`, `kind`, `queue`, `subject`, and `title` and `source` of its payload to lines
    that name no other record."""

    def filter(self, record: logging.LogRecord) -> bool:
        run = handled.get()
        if run is not None and getattr(record, "record", run.id) == run.id:
            about = {"record": run.id, **{name: run.payload.get(name) for name in OF_PAYLOAD}}
            about |= {name: getattr(run, name) for name in ("attempt", "kind", "queue", "subject")}
            record.__dict__.update(about | record.__dict__)
        return True
