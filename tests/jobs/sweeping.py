"""Records that wait for a sweep, and the instants about which tests of sweeps turn."""

from datetime import UTC, datetime, timedelta

from jobs.models import BacklogRecord
from jobs.states import Status, WaitingFor
from tests.factories import build_record

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
SLOT = datetime(2026, 3, 2, 12, tzinfo=UTC)
"""An instant at which slots of 5 minutes, an hour and 12 hours begin, and no others."""
NOW = SLOT + timedelta(seconds=20)
"""The instant at which django-q2 runs it."""


def build_waiting(age: timedelta, **fields: object) -> BacklogRecord:
    """Unsaved: a record of that age at SLOT that waits for a sweep; it failed ten days before by default."""
    values = {
        "waiting_for": WaitingFor.SWEEP,
        "inserted_at": SLOT - age,
        "run_after": SLOT - age + 360 * DAY,
        "failures": 7,
        "last_failure_at": SLOT - 10 * DAY,
    }
    return build_record(Status.WAITING, **(values | fields))


def make_waiting(age: timedelta, **fields: object) -> BacklogRecord:
    """The same, saved."""
    record = build_waiting(age, **fields)
    record.save(force_insert=True)
    return record


def ready() -> set[int]:
    return set(BacklogRecord.objects.ready().values_list("pk", flat=True))
