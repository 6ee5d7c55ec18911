"""The words of a message. Pure: groups in, a title and a text out.

300 sources are overdue (under laptops):
  anna (laptops): no backup since 2026-03-02 09:00 UTC
  … and 295 more
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from alerting.models import AlertKind, MessageType
from external.formatting import some_of

MOST_NAMED = 5
"""Names of a group: a dead switch is one line and five names, not three hundred."""

LONGEST_LINE = 300

ONE = {
    AlertKind.WATCHDOG: "The scheduler does not work as it should",
    AlertKind.HOLD: "Everything is held",
    AlertKind.WORKER: "A worker is silent",
    AlertKind.SCHEDULE: "A schedule did not fire",
    AlertKind.REPOSITORY: "A repository cannot be used",
    AlertKind.SPACE: "A repository is nearly full",
    AlertKind.BREAKER: "A breaker is open",
    AlertKind.FAILING: "A source is failing",
    AlertKind.OVERDUE: "A source is overdue",
    AlertKind.NEVER: "A source was never backed up",
    AlertKind.HELD_BACK: "A backup looks wrong, and is held back",
    AlertKind.CHECK: "A check found damage",
    AlertKind.COPY: "A copy is overdue or damaged",
    AlertKind.DRILL: "A drill failed",
    AlertKind.SELF_BACKUP: "The scheduler itself was not backed up",
}
NEVER_MANY = (AlertKind.WATCHDOG, AlertKind.HOLD, AlertKind.SELF_BACKUP)
ORDER = list(AlertKind)


@dataclass(frozen=True)
class AlertGroup:
    """The alerts of one kind in a message. `names`: the first of them, each with its reason.

    `policies`: the policies that they are under; empty if the finding is not about a policy.
    """

    kind: AlertKind
    over: bool
    count: int
    names: Sequence[str]
    policies: Sequence[str] = ()


class Message(NamedTuple):
    title: str
    body: str
    type: MessageType


def message(groups: Sequence[AlertGroup]) -> Message:
    """One message about all `groups` (at least one): raised alerts first, then those that are over."""
    ordered = sorted(groups, key=lambda group: (group.over, ORDER.index(group.kind)))
    headings = [_heading(group) for group in ordered]
    title = headings[0] + (f", and {len(headings) - 1} more" if len(headings) > 1 else "")
    blocks = ("\n".join([f"{heading}:", *_lines(group)]) for heading, group in zip(headings, ordered, strict=True))
    is_over = all(group.over for group in ordered)
    return Message(title, "\n\n".join(blocks), MessageType.SUCCESS if is_over else MessageType.FAILURE)


def heading(kind: AlertKind, count: int) -> str:
    """A heading such as `2 drills failed`."""
    return ONE[kind] if count == 1 or kind in NEVER_MANY else f"{count:,} {kind.label}"


def _heading(group: AlertGroup) -> str:
    text = heading(group.kind, group.count)
    under = f" (under {some_of(group.policies)})" if group.policies and group.count > 1 else ""
    return f"OK again: {text[:1].lower()}{text[1:]}{under}" if group.over else f"{text}{under}"


def _lines(group: AlertGroup) -> list[str]:
    lines = [f"  {' '.join(name.split())[:LONGEST_LINE]}" for name in group.names[:MOST_NAMED]]
    more = group.count - len(lines)
    return lines + ([f"  … and {more:,} more"] if more else [])
