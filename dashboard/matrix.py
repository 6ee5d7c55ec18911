"""The matrix of sources and days: which sources a page shows, worst first, and the cells of each.

A page has 25 × 90 cells, so a cell has to be small: its classes are letters, its address is relative, and a day on
which nothing was due is no link.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from typing import Any

from django import forms
from django.db.models import F, OuterRef, Subquery
from django.utils.safestring import SafeString, mark_safe
from unfold.widgets import UnfoldAdminSelectWidget

from sources import ledger
from sources.domain import days
from sources.domain.days import Day
from sources.domain.status import COLOURS, Status
from sources.models import Assignment, Policy, Source
from sources.models.source import SourceKind
from sources.status import with_status

ROWS = 25


class MatrixFilter(forms.Form):
    """Which sources are shown; by default all that are not retired."""

    policy = forms.ModelChoiceField(
        Policy.objects.none(), required=False, empty_label="all policies", widget=UnfoldAdminSelectWidget
    )
    kind = forms.ChoiceField(
        choices=[("", "all kinds"), *SourceKind.choices], required=False, widget=UnfoldAdminSelectWidget
    )
    status = forms.ChoiceField(
        choices=[("", "all but retired"), *((each.value, each.value) for each in Status)],
        required=False,
        widget=UnfoldAdminSelectWidget,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["policy"].queryset = Policy.objects.select_related("schedule").order_by("schedule__name")  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Row:
    """A source with its days, oldest first."""

    source: Any
    colour: str
    cells: SafeString


def sources_of(asked: dict[str, Any], now: datetime) -> list[int]:
    """The ids of the sources that a valid filter asks for, worst first; among equals the one whose last success is
    oldest. One statement: a page and its count would be two, and each has to find the status of every source."""
    last = Assignment.objects.filter(source=OuterRef("pk")).order_by(F("last_backup_at").desc(nulls_last=True))
    sources = with_status(Source.objects.annotate(last_backup_at=Subquery(last.values("last_backup_at")[:1])), now)
    if asked["policy"]:
        sources = sources.filter(pk__in=Assignment.objects.filter(policy=asked["policy"]).values("source"))
    if asked["kind"]:
        sources = sources.filter(kind=asked["kind"])
    sources = sources.filter(status=asked["status"]) if asked["status"] else sources.filter(retired_at=None)
    ordered = sources.order_by("status_rank", F("last_backup_at").asc(nulls_first=True), "name")
    return list(ordered.values_list("pk", flat=True))


def rows_of(ids: Sequence[int], policy: Policy | None, now: datetime) -> tuple[list[date], list[Row]]:
    """The dates and the rows of a page, in four statements. `policy`: judge by this one only."""
    sources = with_status(Source.objects.all(), now).in_bulk(ids)
    related = Assignment.objects.filter(source__in=ids)
    if policy:
        related = related.filter(policy=policy)
    assignments = list(related.select_related("source", "policy__schedule"))
    dates = ledger.span_of_days(ledger.latest_date(assignments, now))
    judged = ledger.days_of(assignments, dates, now)
    of_source: dict[int, list[list[Day]]] = {pk: [] for pk in sources}
    for assignment in assignments:
        of_source[assignment.source_id].append(judged[assignment.pk])
    return dates, [
        Row(sources[pk], COLOURS[sources[pk].status], _cells(pk, dates, of_source[pk])) for pk in ids if pk in sources
    ]


def _cells(source: int, dates: Sequence[date], under: list[list[Day]]) -> SafeString:
    worst = [days.worst(of_day) for of_day in zip(*under, strict=True)] or [Day.NONE] * len(dates)
    return mark_safe("".join(_cell(source, *each) for each in zip(dates, worst, strict=True)))  # noqa: S308 - ids, dates


def _cell(source: int, day: date, judged: Day) -> str:
    if judged is Day.NONE:
        return "<td>"
    name, sign = days.SIGNS[judged]
    return f"<td><a class={name} href={source}/{day:%Y%m%d}>{sign}</a>"


def months_of(dates: Sequence[date]) -> list[tuple[str, int]]:
    """The months with their number of dates."""
    return [(f"{first:%B %Y}", len(list(group))) for first, group in groupby(dates, lambda day: day.replace(day=1))]
