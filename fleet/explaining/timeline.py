"""The reason that held an assignment up at each past instant, from the history that was kept. Pure.

Between two attempts a record waits for the condition that the first one ended with, and while its window is closed for
that; without a record the assignment is not due. Pauses and holds take precedence over all of these. A running record
counts as running.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from jobs.states import AttemptOutcome, Status
from operations.backlog.reason import WHAT, Code


class Span(NamedTuple):
    """A time range. `ends` is None if it has not ended."""

    begins: datetime
    ends: datetime | None


@dataclass(frozen=True)
class Stretch:
    """The reason why no backup was begun in [begins, ends). `why`: an error, or the decision; may be empty."""

    code: Code
    begins: datetime
    ends: datetime
    why: str = ""

    @property
    def seconds(self) -> float:
        return (self.ends - self.begins).total_seconds()

    @property
    def text(self) -> str:
        """The reason as text."""
        return f"{WHAT[self.code]}{f' ({self.why})' if self.why else ''}"


class PastAttempt(NamedTuple):
    """An attempt. `decided`: the log's word for its end, such as `held`; empty if that is no longer kept."""

    begins: datetime
    ends: datetime
    outcome: int
    copied: bool
    why: str = ""
    decided: str = ""


class Life(NamedTuple):
    """A record: when it came onto the backlog and left it, how it ended, and its attempts in order. `windowed`: it
    waits for its window. `waits`: the condition it waits for now; `ready_since`: since when it is ready, if it is now.
    """

    begins: datetime
    ends: datetime | None
    status: int
    attempts: Sequence[PastAttempt]
    windowed: bool = True
    waits: Code | None = None
    ready_since: datetime | None = None


AFTER = {
    AttemptOutcome.HANDOFF: Code.READY, AttemptOutcome.UNAVAILABLE: Code.ABSENT, AttemptOutcome.FAILED: Code.BACKOFF,
    AttemptOutcome.RESCUED: Code.BACKOFF, AttemptOutcome.RELEASED: Code.READY,
}  # fmt: skip
DECIDED = {
    "held": Code.BREAKER, "failed for its repository": Code.BREAKER, "postponed": Code.PUT_OFF, "silent": Code.ABSENT,
    "vanished": Code.ABSENT,
}  # fmt: skip
ENDED = {Status.FAILED: Code.FAILED, Status.CANCELLED: Code.CANCELLED}


def stretches(
    lives: Iterable[Life], closed: Sequence[Span], idle: Iterable[tuple[Code, Span]], since: datetime, until: datetime
) -> list[Stretch]:
    """The stretches without gaps from `since` to `until`. `closed`: the times when the window was closed; `idle`:
    pauses and holds, the last of overlapping ones counts.
    """
    found, now, rest, why = list[Stretch](), since, Code.NOT_DUE, ""
    for life in sorted(lives, key=lambda life: life.begins):
        found.append(Stretch(rest, now, life.begins, why))
        found += _of_life(life, closed, until)
        now, why = life.ends or until, ""
        rest = ENDED.get(Status(life.status), Code.NOT_DUE)
        if rest == Code.FAILED and life.attempts:
            why = life.attempts[-1].why
    found.append(Stretch(rest, now, until, why))
    for code, span in idle:
        found = [part for each in found for part in _laid_over(each, span, code)]
    return list(_joined(cut for each in found if (cut := _cut(each, since, until))))


def _of_life(life: Life, closed: Sequence[Span], until: datetime) -> Iterator[Stretch]:
    now, code, why = life.begins, Code.READY, ""
    spans = closed if life.windowed else ()
    for tried in life.attempts:
        yield from _waited(Stretch(code, now, max(now, tried.begins), why), spans)
        code, why = _after(tried), tried.why
        during = Code.RUNNING if tried.copied else code
        yield Stretch(during, max(now, tried.begins), tried.ends, "" if tried.copied else why)
        now = max(now, tried.ends)
    if life.status == Status.RUNNING and life.attempts:
        return
    ends = max(now, life.ends or until)
    if life.ready_since and now < life.ready_since < ends:
        yield from _waited(Stretch(code, now, life.ready_since, why), spans)
        code, now = Code.READY, life.ready_since
    yield from _waited(Stretch(life.waits or code, now, ends, why), spans)


def _after(tried: PastAttempt) -> Code:
    return DECIDED.get(tried.decided) or AFTER.get(AttemptOutcome(tried.outcome), Code.READY)


def _waited(stretch: Stretch, closed: Sequence[Span]) -> list[Stretch]:
    """The stretch, divided by the times when the window was closed. `closed`: in order. Times that do not meet the
    stretch are not looked at: a window may open each minute.
    """
    found = [stretch]
    first = bisect_right(closed, stretch.begins, key=lambda span: span.ends or stretch.ends)
    last = bisect_left(closed, stretch.ends, lo=first, key=lambda span: span.begins)
    for span in closed[first:last]:
        found = [part for each in found for part in _laid_over(each, span, Code.WINDOW)]
    return found


def _laid_over(stretch: Stretch, span: Span, code: Code) -> Iterator[Stretch]:
    """The parts of a stretch, one of them with `code`."""
    begins, ends = max(stretch.begins, span.begins), min(stretch.ends, span.ends or stretch.ends)
    if begins >= ends or stretch.code == Code.RUNNING:
        yield stretch
        return
    yield replace(stretch, ends=begins)
    yield Stretch(code, begins, ends)
    yield replace(stretch, begins=ends)


def _cut(stretch: Stretch, since: datetime, until: datetime) -> Stretch | None:
    begins, ends = max(stretch.begins, since), min(stretch.ends, until)
    return replace(stretch, begins=begins, ends=ends) if begins < ends else None


def _joined(found: Iterable[Stretch]) -> Iterator[Stretch]:
    """Join consecutive stretches with the same reason into one, with the last text about it."""
    last: Stretch | None = None
    for each in sorted(found, key=lambda stretch: stretch.begins):
        if last and last.code == each.code and last.ends >= each.begins:
            last = replace(last, ends=each.ends, why=each.why or last.why)
            continue
        if last:
            yield last
        last = each
    if last:
        yield last
