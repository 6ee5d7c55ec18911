"""Records that failed and wait by a retry policy."""

from datetime import datetime, timedelta
from typing import Any

from jobs.models import BacklogRecord, RetryPolicy
from jobs.retries import ALGORITHMS
from jobs.states import Status, WaitingFor
from tests.factories import NOON, make_record

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LATER = NOON + HOUR


def failing(policy: RetryPolicy | None, **fields: Any) -> BacklogRecord:
    """It failed at noon for the third time and waits for ten hours."""
    values: dict[str, Any] = {
        "waiting_for": WaitingFor.BACKOFF,
        "run_after": NOON + 10 * HOUR,
        "failures": 3,
        "retry_policy": policy,
    }
    return make_record(Status.WAITING, **(values | fields))


def wait(record: BacklogRecord) -> tuple[WaitingFor, datetime]:
    record.refresh_from_db()
    return WaitingFor(record.waiting_for), record.run_after


def parameters_of(name: str, value: Any) -> dict[str, Any]:
    """All its numbers set to `value`."""
    algorithm = ALGORITHMS[name]
    return {key: value for key in algorithm.defaults if key not in algorithm.choices}
