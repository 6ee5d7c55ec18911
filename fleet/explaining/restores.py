"""States of restores: which have ended, which a worker runs, and why the others wait."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.models import BacklogRecord
from jobs.states import FINISHED, Status
from operations.backlog.reason import Reason, texts
from operations.backlog.reasons import hindrances, in_its_turn
from operations.backlog.surroundings import Surroundings
from sources.models import Restore, RestoreOutcome

WAITING, UNDER_WAY = "waiting", "under way"


@dataclass(frozen=True)
class RestoreState:
    """`word`: `waiting`, `under way`, or its outcome. `reasons`: why it waits, in the order in which they would have to
    end; empty if it does not wait.
    """

    word: str
    reasons: tuple[Reason, ...] = ()

    @property
    def why(self) -> list[str]:
        """The reasons as sentences."""
        return texts(self.reasons)

    @property
    def as_facts(self) -> dict[str, Any]:
        """The state by name."""
        return {"state": self.word, "reasons": [each.as_facts for each in self.reasons]}


def states_of(restores: Iterable[Restore], now: datetime) -> dict[int, RestoreState]:
    """Restore id → its state at `now` (aware), the present, by a number of statements that does not grow with them."""
    rows = list(restores)
    related = BacklogRecord.objects.select_related("retry_policy")
    records = related.in_bulk([row.record_id for row in rows if row.record_id])
    around = Surroundings([*records.values()], now)
    return {row.pk: _state(row, records.get(row.record_id or 0), around) for row in rows}


def _state(restore: Restore, record: BacklogRecord | None, around: Surroundings) -> RestoreState:
    """Its record decides: one that has ended may have been retried, and one that was cancelled while it waited gets its
    outcome within a minute.
    """
    if record is None or record.status in FINISHED:
        gone = record is None or record.status == Status.CANCELLED
        return RestoreState(restore.outcome or (RestoreOutcome.CANCELLED if gone else UNDER_WAY))
    if record.status == Status.RUNNING:
        return RestoreState(UNDER_WAY)
    return RestoreState(WAITING, tuple(hindrances(record, around) or [in_its_turn(record)]))
