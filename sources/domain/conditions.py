"""What an agent reported of its source's present state, against what the policy allows."""

from datetime import datetime, timedelta
from typing import Protocol

STALE_AFTER = timedelta(hours=1)
"""An older report is no longer believed: agents announce themselves every few minutes."""


class State(Protocol):
    """What its agent reported of a source."""

    @property
    def checked_in_at(self) -> datetime | None: ...
    @property
    def on_battery(self) -> bool | None: ...
    @property
    def metered(self) -> bool | None: ...


class Allows(Protocol):
    """What a policy says of sources that run on battery or a metered connection."""

    @property
    def on_battery(self) -> bool: ...
    @property
    def on_metered(self) -> bool: ...


def unwilling(source: State, policy: Allows, now: datetime) -> str | None:
    """Why the source should not be backed up at `now` although it is there, in words; None: it may."""
    if source.checked_in_at is None or now - source.checked_in_at > STALE_AFTER:
        return None
    if source.on_battery and not policy.on_battery:
        return "it runs on battery, which its policy does not allow"
    if source.metered and not policy.on_metered:
        return "its connection is metered, which its policy does not allow"
    return None
