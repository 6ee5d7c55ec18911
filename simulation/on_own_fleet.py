"""The effect of a change on the fleet of this installation, within a time: for pages and answers."""

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from declarations.surfaces.patience import TookTooLong, at_most
from operations.limits import LimitOfOneProcess
from simulation.changes import Changes
from simulation.recorded import recorded_fleet
from simulation.what_if import Comparison, NotComputed, compare

SECONDS = 8.0
"""The limit of a page or an answer, which holds a thread of the website for so long."""
ASKED = LimitOfOneProcess("what-if", 6, 60)
"""Per account."""


@dataclass(frozen=True)
class Answer:
    """The difference, and sentences about what is not known of the fleet."""

    found: Comparison
    lacks: list[str]

    @property
    def as_facts(self) -> dict[str, Any]:
        """By name."""
        return self.found.as_facts | {"lacks": self.lacks}


def what_if(now: datetime, days: int, changes: Changes, seconds: float = SECONDS) -> Answer:
    """Compare the last `days` days, or as many of them as the time is enough for.

    Raises: HistoryTooShort; NotComputed; ValueError for a change that cannot be.
    """
    began = time.monotonic()
    try:
        with at_most(seconds):
            recorded = recorded_fleet(now, days, changes.units)
    except TookTooLong as error:
        raise NotComputed(f"reading the history took more than {seconds:g} s") from error
    changed = changes.made_to(recorded.fleet)
    left = max(0.0, seconds - (time.monotonic() - began))
    found = compare(recorded.fleet, changed, recorded.days, left)
    lacks = recorded.lacks
    if found.days < recorded.days:
        lacks = [*lacks, f"the time was enough for the first {found.days} of {recorded.days} days"]
    return Answer(found, lacks)
