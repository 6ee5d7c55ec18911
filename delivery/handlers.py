"""Delivery: from an event on the backlog to its receiver.

Each kind has a module that delivers it, which is loaded at the first delivery: the HTTP client takes 0.4 s, which no
other command should.
"""

from datetime import timedelta

from django.db.utils import Error

from delivery.events import QUEUE
from delivery.models import EndpointKind
from jobs.database_errors import DatabaseTrouble, trouble_of
from jobs.handlers import Kind, Run, registry
from jobs.outcomes import ClaimedRecord, Outcome, Postponed
from jobs.states import WaitingFor

LONGEST_SECONDS = 3_900.0
"""A callback ends after its endpoint's timeout, an hour at most. One that runs for longer hangs."""

DATABASE_AWAY_SECONDS = 30.0
"""The wait of an event whose target could not be read."""


def register() -> None:
    """Register the kinds that deliver events."""
    for kind in EndpointKind.values:
        registry.add(Kind(kind, home_queue=QUEUE, max_seconds=LONGEST_SECONDS, warm_up=prepare))
        registry.handler(kind, queue=QUEUE)(deliver)


def prepare() -> None:
    """Load the HTTP client before a worker claims events, so that the first one does not wait for it."""
    from delivery.http import callback  # noqa: F401


async def deliver(run: Run) -> Outcome:
    """Deliver an event as its kind says."""
    from delivery.http import callback
    from delivery.sqs import message

    delivered = message.deliver if run.record.kind == EndpointKind.SQS_MESSAGE else callback.deliver
    try:
        return await delivered(run)
    except Error as error:
        return _postponed(run.record, error)


def _postponed(record: ClaimedRecord, error: Error) -> Postponed:
    """The outcome for a target about which the database did not answer. Raises: `error` if the fault was ours."""
    if trouble_of(error) is DatabaseTrouble.OURS:
        raise error
    again_at = record.started_at + timedelta(seconds=DATABASE_AWAY_SECONDS)
    return Postponed(again_at, WaitingFor.RECHECK, f"the database did not answer ({str(error).strip()})")
