"""The pages `matrix/` and `matrix/SOURCE/DAY`: every day of every source, the worst first, and the events of one day.

A page has 25 × 90 cells, so a cell must be small: its classes are letters, its address is relative, and a day on which
nothing was due has no link.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from functools import cached_property, wraps
from itertools import groupby
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe
from unfold.widgets import UnfoldAdminSelectWidget

from dashboard.pages import page
from declarations.surfaces.web.permissions import may_look
from external.durations import span
from fleet.status import with_status
from fleet.status.of_all import in_status
from fleet.status.ordering import FEW, OLDEST_SUCCESS_FIRST, worst_first
from jobs.models import Attempt, Decision, Level
from jobs.states import AttemptOutcome
from jobs.zones import in_zone, zone_of
from operations.silences import SILENCES
from sources import planning
from sources.domain.days import SIGNS, Day, DayStretch, worst
from sources.domain.status import COLOURS, ProtectionStatus
from sources.models import Assignment, Backup, Policy, Source
from sources.models.source import SourceKind
from sources.protection import ledger

ROWS = 25


class MatrixFilter(forms.Form):
    """The filter of the matrix: by default all sources that are not retired."""

    policy = forms.ModelChoiceField(
        Policy.objects.none(), required=False, empty_label="all policies", widget=UnfoldAdminSelectWidget
    )
    kind = forms.ChoiceField(
        choices=[("", "all kinds"), *SourceKind.choices], required=False, widget=UnfoldAdminSelectWidget
    )
    status = forms.ChoiceField(
        choices=[("", "all but retired"), *((each.value, each.value) for each in ProtectionStatus)],
        required=False,
        widget=UnfoldAdminSelectWidget,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["policy"].queryset = Policy.objects.select_related("schedule").order_by("schedule__name")  # type: ignore[attr-defined]


def sources_of(asked: dict[str, Any], now: datetime) -> QuerySet[Source]:
    """The sources that a valid filter asks for."""
    sources = Source.objects.all()
    if asked["policy"]:
        sources = sources.filter(pk__in=Assignment.objects.filter(policy=asked["policy"]).values("source"))
    if asked["kind"]:
        sources = sources.filter(kind=asked["kind"])
    return sources.filter(
        in_status([ProtectionStatus(asked["status"])], now) if asked["status"] else Q(retired_at=None)
    )


class WorstFirstIds:
    """Sources as a paginator takes them: ids, the worst first."""

    def __init__(self, sources: QuerySet[Source], now: datetime) -> None:
        self._sources, self._now = sources, now

    @cached_property
    def _number(self) -> int:
        return self._sources.count()

    def __len__(self) -> int:
        return self._number

    def __getitem__(self, page: slice) -> list[int]:
        few, most = self._number <= FEW, page.stop - page.start
        found = worst_first(self._sources, self._now, first=page.start, most=most, order=OLDEST_SUCCESS_FIRST, few=few)
        return list(found)


def rows_of(ids: Sequence[int], policy: Policy | None, now: datetime) -> tuple[list[date], list[dict[str, Any]]]:
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
        {"source": row, "colour": COLOURS[row.status], "cells": _cells(pk, dates, of_source[pk])}
        for pk in ids
        if (row := sources.get(pk))
    ]


def _cells(source: int, dates: Sequence[date], under: list[list[Day]]) -> SafeString:
    judged = [worst(of_day) for of_day in zip(*under, strict=True)] or [Day.NONE] * len(dates)
    return mark_safe("".join(_cell(source, *each) for each in zip(dates, judged, strict=True)))  # noqa: S308 - ids, dates


def _cell(source: int, day: date, judged: Day) -> str:
    if judged is Day.NONE:
        return "<td>"
    name, sign = SIGNS[judged]
    return f"<td><a class={name} href={source}/{day:%Y%m%d}>{sign}</a>"


def months_of(dates: Sequence[date]) -> list[tuple[str, int]]:
    """The months with their number of dates."""
    return [(f"{first:%B %Y}", len(list(group))) for first, group in groupby(dates, lambda day: day.replace(day=1))]


MOST_ATTEMPTS = 200
MOST_LINES = 200

EXPLAINED = {
    Day.PRESENT: "No backup began, although the source answered or checked in.",
    Day.UNASKED: "No backup began, and the scheduler did not ask the source: no worker ran, or all were busy.",
    Day.ABSENT: "No backup began: the source did not answer whenever it was asked.",
    Day.OPEN: "No backup has begun yet; there is still time.",
    Day.PROTECTED: "A backup that began then succeeded.",
    Day.PAUSED: "No backup began, and none was wanted when the last chance of the period ended.",
    Day.EXCLUDED: "No backup began: the window of the policy had no opening.",
    Day.RETIRED: "The source was retired.",
    Day.NONE: "Nothing was due.",
}


def of_sources(view: Callable[..., HttpResponse]) -> Callable[..., Any]:
    """Allow a page to members of staff who may view sources."""

    @wraps(view)
    def permitted(request: HttpRequest, **names: Any) -> HttpResponse:
        if not request.user.has_perm("sources.view_source") and not request.user.has_perm("sources.change_source"):
            raise PermissionDenied
        return require_safe(view)(request, **names)

    return admin.site.admin_view(permitted)


@of_sources
def matrix_page(request: HttpRequest) -> HttpResponse:
    asked, now = MatrixFilter(request.GET), timezone.now()
    chosen = asked.cleaned_data if asked.is_valid() else dict.fromkeys(asked.fields)
    pages: Paginator[int] = Paginator(WorstFirstIds(sources_of(chosen, now), now), ROWS)  # type: ignore[arg-type]
    shown = pages.get_page(request.GET.get("page"))
    dates, rows = rows_of(list(shown.object_list), chosen["policy"], now)
    query = request.GET.copy()
    query.pop("page", None)
    return page(
        request, "dashboard/matrix.html", "Calendar",
        asked=asked, shown=shown, dates=dates, rows=rows, months=months_of(dates),
        legend=[(*signs, day) for day, signs in SIGNS.items()],
        query=f"{query.urlencode()}&" if query else "",
    )  # fmt: skip


@of_sources
def matrix_day(request: HttpRequest, source: int, day: str) -> HttpResponse:
    """The events of a source on a day, under each of its policies. Any other day redirects to that of the matrix."""
    now = timezone.now()
    try:
        on = date.fromisoformat(day)
    except ValueError:
        return redirect("matrix")
    if not now.date() - timedelta(days=366) < on < now.date() + timedelta(days=2):
        return redirect("matrix")
    row = get_object_or_404(Source, pk=source)
    related = row.assignments.select_related("source", "policy__schedule").order_by("policy__schedule__name")
    return page(
        request, "dashboard/day.html", f"{row} on {on:%A}, {on.isoformat()}",
        source=row, on=on, before=on - timedelta(days=1), after=on + timedelta(days=1),
        accounts=[_account(request, ledger.account_of(each, on, now)) for each in related],
    )  # fmt: skip


def _account(request: HttpRequest, account: ledger.Account) -> dict[str, Any]:
    zone = account.assignment.policy.schedule.zone
    judged = account.day
    shown: dict[str, Any] = {
        "policy": account.assignment.policy, "judged": judged, "means": EXPLAINED[judged], "zone": zone,
        "sign": SIGNS.get(judged),
        "idle": [(why, _at(since, zone), _at(until, zone)) for why, since, until in account.idle],
    }  # fmt: skip
    if account.stretch is None:
        return shown
    shown |= {"begins": _at(account.stretch.begins, zone), "ends": _at(account.stretch.ends, zone)}
    if may_look(request):
        shown |= {"attempts": _attempts(account, zone), "left_out": len(account.attempts) - MOST_ATTEMPTS}
    if request.user.has_perm("jobs.view_decision"):
        shown["lines"] = _lines(account.assignment, account.stretch, zone)
    return shown


def _attempts(account: ledger.Account, zone: str) -> dict[str, Any]:
    ran = account.attempts[-MOST_ATTEMPTS:]
    ids = {each.record_id for each in ran}
    backups = dict(Backup.objects.filter(record_id__in=ids).values_list("record_id", "pk"))
    rows = [
        (
            _at(each.started_at, zone),
            span((each.ended_at - each.started_at).total_seconds()),
            each.queue,
            AttemptOutcome(each.outcome).label,
            _what(each, backups),
        )
        for each in ran
    ]
    return {"headers": ("began", "took", "queue", "outcome", "what happened"), "rows": rows}


def _what(attempt: Attempt, backups: dict[int | None, int]) -> str:
    record = format_html(
        '<a class="text-link" href="{}">record {}</a>',
        reverse("admin:jobs_backlogrecord_change", args=[attempt.record_id]),
        attempt.record_id,
    )
    if attempt.outcome == AttemptOutcome.SUCCEEDED and attempt.record_id in backups:
        made = reverse("admin:sources_backup_change", args=[backups[attempt.record_id]])
        return format_html('<a class="text-link" href="{}">the backup</a> · {}', made, record)
    times = (attempt.facts or {}).get(SILENCES)
    text = f"silent {times} times: {attempt.error}" if times else attempt.error
    return format_html("{} · {}", text, record) if text else record


def _lines(assignment: Assignment, stretch: DayStretch, zone: str) -> list[tuple[str, str]]:
    about = Q(subject=planning.subject_of(assignment.pk)) | Q(subject=planning.subject_of_source(assignment.source_id))
    lines = Decision.objects.filter(about, kind=planning.KIND, level=Level.DOING)
    lines = lines.filter(at__gte=stretch.begins, at__lt=stretch.ends).order_by("at", "pk")
    return [(_at(at, zone), text) for at, text in lines.values_list("at", "text")[:MOST_LINES]]


def _at(instant: datetime | None, zone: str) -> str:
    """The instant by the clocks of the policy, followed by UTC if that differs."""
    if instant is None:
        return ""
    local, utc = in_zone(instant, zone_of(zone)), f"{instant:%H:%M:%S} UTC"
    return f"{local:%Y-%m-%d %H:%M:%S}" + (f" ({utc})" if local.utcoffset() else " UTC")
