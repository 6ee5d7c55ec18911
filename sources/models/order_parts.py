"""Parts that this product adds to the published order (docs/decisions/0137). Each can be turned off:
`BACKUPSCHED_ORDER_WITHOUT` names those that are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings


@dataclass(frozen=True)
class OrderParts:
    """The parts of the claim order that are on.

    resume: a first backup that is cut continues where it was, and does not come first again. sizes: of first backups
    with a known size the smallest comes first. hours: outside the hours in which a source was ever there, one magic
    packet each 12 hours. waking: a long first backup lets much shorter ones that wake up come first.
    """

    resume: bool = True
    sizes: bool = True
    hours: bool = True
    waking: bool = True


_simulated: ContextVar[OrderParts | None] = ContextVar("_simulated", default=None)


def in_force() -> OrderParts:
    """The parts by the settings, or those of a simulation that runs here."""
    return _simulated.get() or OrderParts(**dict.fromkeys(getattr(settings, "ORDER_WITHOUT", ()), False))


@contextmanager
def simulated(parts: OrderParts) -> Iterator[None]:
    """Have other parts in force, in this thread alone."""
    token = _simulated.set(parts)
    try:
        yield
    finally:
        _simulated.reset(token)


def forgiven_losses(last_backup_at: datetime | None) -> int:
    """The number of losses in a row that leave an assignment first in line."""
    return 0 if last_backup_at is None and in_force().resume else 1
