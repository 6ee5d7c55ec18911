"""Why a record does not run now: every reason, in the order in which they count, from what decides."""

from datetime import datetime

from jobs import breakers
from jobs.models import BacklogRecord, Breaker
from jobs.states import Status, WaitingFor


def reasons(record: BacklogRecord, now: datetime) -> list[str]:
    """Sentences for people; none for a record that runs or has ended."""
    if record.status != Status.WAITING:
        return []
    if record.waiting_for == WaitingFor.BREAKER:
        breaker = Breaker.objects.filter(pk=record.breaker_id).first()
        return [breakers.told(breaker)] if breaker and breaker.is_open else []
    return [f"it waits for {WaitingFor(record.waiting_for).label} until {record.run_after:%Y-%m-%d %H:%M:%S} UTC"]
