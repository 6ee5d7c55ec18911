"""What yields the batches of triggers besides their own events: apps register it by name."""

from collections.abc import Callable, Sequence
from datetime import datetime

from jobs.handlers import registry
from schedules.models import Schedule

Provide = Callable[[Sequence[tuple[Schedule, datetime]], datetime], int]

known: dict[str, Provide] = {}


def add_provider(name: str, provide: Provide, catch_up: Callable[[], int] | None = None) -> None:
    """Register what yields the batches of triggers: `provide([(schedule, trigger_at)], now) -> records`.

    It is given each schedule once at most, in one transaction with what notes that they were emitted. Asked again
    for a trigger, it puts there what is not there yet.

    `catch_up() -> records` emits what became due in mid-period and was missed.
    """
    known[name] = provide
    if catch_up:
        registry.add_periodic(catch_up)
