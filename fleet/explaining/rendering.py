"""Reasons as lines of a terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

from declarations.surfaces.terminal import columns, one_line
from external.formatting import moment
from fleet.explaining import SourceExplanation
from operations.backlog.rendering import reasons_view
from sources.models import Source

GROUPS = columns("code", "what", "sources>", "such as")


def group_row(facts: dict[str, Any]) -> tuple[object, ...]:
    """The row of a group in the table of all sources."""
    return facts["code"], facts["what"], f"{facts['number']:,}", ", ".join(facts["names"])


def lines(source: Source, found: Sequence[SourceExplanation]) -> Iterator[str]:
    """One heading for each policy, and one line for each reason."""
    for each in found:
        under = f" under {each.policy}" if each.policy else ""
        record = f" (record {each.record})" if each.record else ""
        yield one_line(f"{source}{under} at {moment(each.explanation.at)} UTC{record}")
        yield from reasons_view(each.explanation)
