"""A reason why something does not run now: a stable word, a sentence, until when it holds, and its numbers. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any


class Code(StrEnum):
    """The reasons why something does not run now, as words that programs may rely on. They are in the order in which
    the reasons would have to end; docs/reasons.md lists them.
    """

    REMOVED = "removed"
    RETIRED = "retired"
    PAUSED = "paused"
    UNPROTECTED = "unprotected"
    DISABLED = "disabled"
    UNREADABLE = "unreadable"
    ON_HOLD = "on_hold"
    QUEUE_PAUSED = "queue_paused"
    NOT_DUE = "not_due"
    NOT_PLANNED = "not_planned"
    WINDOW = "window"
    START = "start"
    SNOOZED = "snoozed"
    BACKOFF = "backoff"
    SWEEP = "sweep"
    BREAKER = "breaker"
    ABSENT = "absent"
    PUT_OFF = "put_off"
    WOKEN = "woken"
    EXCLUSIVE = "exclusive"
    UNSERVED = "unserved"
    THROTTLED = "throttled"
    ENOUGH = "enough"
    NO_UNIT = "no_unit"
    READY = "ready"
    RUNNING = "running"
    AWAY = "away"
    NO_ROOM = "no_room"
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    LOG = "log"
    FIRED = "fired"
    SKIPPED = "skipped"
    OVERLAP = "overlap"
    NO_TRIGGER = "no_trigger"
    EDITED = "edited"


REFUSED_BY_CLAIM = frozenset({Code.ON_HOLD, Code.QUEUE_PAUSED, Code.WINDOW, Code.THROTTLED})
"""The reasons for which a claim does not take a ready record. All other reasons of a ready one keep workers from
claiming.
"""

WHAT = {
    Code.REMOVED: "being deleted", Code.RETIRED: "retired", Code.PAUSED: "paused", Code.UNPROTECTED: "in no policy",
    Code.DISABLED: "policy disabled", Code.UNREADABLE: "policy cannot be read", Code.ON_HOLD: "everything on hold",
    Code.QUEUE_PAUSED: "queue paused", Code.NOT_DUE: "not due", Code.NOT_PLANNED: "due, not planned yet",
    Code.WINDOW: "window closed", Code.START: "start put off by the stagger", Code.SNOOZED: "snoozed",
    Code.BACKOFF: "backing off after a failure", Code.SWEEP: "waiting for a sweep", Code.BREAKER: "breaker open",
    Code.ABSENT: "absent", Code.PUT_OFF: "put off", Code.WOKEN: "woken, asked again soon",
    Code.EXCLUSIVE: "another record of its source comes first", Code.UNSERVED: "no worker",
    Code.THROTTLED: "throttled", Code.ENOUGH: "enough have answered", Code.NO_UNIT: "no free unit",
    Code.READY: "ready, in line", Code.RUNNING: "running", Code.AWAY: "repository away",
    Code.NO_ROOM: "repository full", Code.FAILED: "gave up", Code.SUCCEEDED: "succeeded", Code.CANCELLED: "cancelled",
    Code.LOG: "a line of the log", Code.FIRED: "fired", Code.SKIPPED: "skipped",
    Code.OVERLAP: "an earlier batch is unfinished", Code.NO_TRIGGER: "no trigger", Code.EDITED: "edited since",
}  # fmt: skip
"""The same reasons as headings."""


@dataclass(frozen=True)
class Reason:
    """`text`: a clause without a full stop; `until`: when it ends by time alone, as far as is known; `facts`: its
    numbers and names, as JSON values.
    """

    code: Code
    text: str
    until: datetime | None = None
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __str__(self) -> str:
        return self.text

    @property
    def as_facts(self) -> dict[str, Any]:
        """The facts of the reason by name."""
        return {"code": str(self.code), "text": self.text, "until": self.until, "facts": dict(self.facts)}


@dataclass(frozen=True)
class Explanation:
    """Every reason of a record at an instant, in order. `runnable`: a claim at that instant could take it, if a worker
    asked for as many records as there are before it.
    """

    at: datetime
    runnable: bool
    reasons: tuple[Reason, ...]

    @property
    def as_facts(self) -> dict[str, Any]:
        """The explanation by name."""
        return {"at": self.at, "runnable": self.runnable, "reasons": [each.as_facts for each in self.reasons]}


def texts(reasons: Iterable[Reason]) -> list[str]:
    """The sentences alone."""
    return [each.text for each in reasons]
