"""The reasons why a source is not backed up now, and what it waited for in the last thirty days, on its page."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from external.durations import span
from external.formatting import moment
from fleet.explaining import explain_source
from fleet.explaining.history import history_of, totals
from fleet.explaining.known import KnownSource
from fleet.explaining.timeline import Stretch
from operations.backlog.reason import WHAT, Code

SHOWN_DAYS = 30
WIDTH = 900
"""The width of a strip, in the units of its picture."""
LEAST_WIDTH = 1.5
"""The least width of a stretch: a short one is still seen."""
MOST_STRIPS = 5

LOOKS = {
    Code.NOT_DUE: "well", Code.RUNNING: "runs", Code.READY: "line", Code.NO_UNIT: "line", Code.ABSENT: "absent",
    Code.WOKEN: "absent", Code.BACKOFF: "bad", Code.BREAKER: "bad", Code.FAILED: "bad", Code.SWEEP: "bad",
}  # fmt: skip
"""The class of a stretch; `rest` for all others."""


class Mark(NamedTuple):
    """A stretch as it is drawn."""

    left: float
    width: float
    look: str
    title: str


def of_page(known: KnownSource) -> dict[str, Any]:
    """Context for the template: the reasons under each policy, and one strip for each assignment."""
    now, since = known.now, known.now - timedelta(days=SHOWN_DAYS)
    shown = known.assignments[:MOST_STRIPS]
    strips = [(str(each.policy), history_of(each, since, now, known.idle)) for each in shown]
    explained = explain_source(known.source, now, known=known)
    return {
        "explained": [(each.policy, each.record, each.explanation.reasons) for each in explained],
        "strips": [
            {"policy": policy, "marks": _marks(found), "totals": _as_text(found), "since": found[0].begins}
            for policy, found in strips
            if found
        ],
        "strip_width": WIDTH,
    }


def _marks(found: Sequence[Stretch]) -> list[Mark]:
    begins = found[0].begins
    seconds = max(1.0, (found[-1].ends - begins).total_seconds())
    return [
        Mark(
            round(WIDTH * (each.begins - begins).total_seconds() / seconds, 1),
            round(max(LEAST_WIDTH, WIDTH * each.seconds / seconds), 1),
            LOOKS.get(each.code, "rest"),
            f"{moment(each.begins)} UTC, {span(each.seconds)}: {each.text}",
        )
        for each in found
    ]


def _as_text(found: Sequence[Stretch]) -> list[tuple[str, str, str]]:
    """The class, the reason and the total time for which it held, the longest first."""
    return [(LOOKS.get(code, "rest"), WHAT[code], span(seconds)) for code, seconds in totals(found).items()]
