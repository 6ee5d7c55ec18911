"""The log of decisions: to read, newest first. It may hold a million lines, so nothing here counts them."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.paginator import InfinitePaginator

from declarations.surfaces.admin.base import ReadOnlyAdmin, anchor, column, link, moment
from declarations.surfaces.admin.tables import table
from external.durations import span
from jobs.models import BacklogRecord, Decision, Level
from jobs.order import REASONS
from operations.admin.filters import KindFilter, OneOf

NAMES_FROM = 5_000
"""The number of latest lines that are read for the names to filter by."""

LEVEL_LABELS = {Level.DOING.label: "info", Level.CONSIDERING.label: ""}

CANDIDATES = ("claimed", "left")
"""Facts of a claim that are lists of records with the keys of the claim order."""


def log_url(subjects: Iterable[str], *kinds: str) -> str:
    """The address of the list of lines about these subjects."""
    about = {"kind__in": ",".join(kinds), "subject__in": ",".join(subjects)}
    return f"{reverse('admin:jobs_decision_changelist')}?{urlencode(about)}"


def log_url_of_record(record: BacklogRecord) -> str:
    """The address of the list of lines about a record. The subject is named as well, since the index is on it."""
    about = {"kind": record.kind, "subject": record.subject, "record_id": record.pk}
    return f"{reverse('admin:jobs_decision_changelist')}?{urlencode(about)}"


class WhatFilter(OneOf):
    """A filter by action. The choices are read from the latest lines: a DISTINCT would read all lines."""

    title, parameter_name = "what", "what"

    def names(self) -> list[str]:
        latest = Decision.objects.order_by("-id").values_list("what", flat=True)[:NAMES_FROM]
        return sorted({*latest, *filter(None, [self.value()])})

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(what=self.value()) if self.value() else queryset


@admin.register(Decision)
class DecisionAdmin(ReadOnlyAdmin):
    """The actions and considerations, line by line."""

    when_empty = "Everything that the scheduler did or considered is a line of this log."
    list_display = ("shown_at", "shown_level", "what", "text", "shown_record")
    list_display_links = ("shown_at",)
    list_filter = ("level", WhatFilter, KindFilter, "at")
    search_fields = ("text",)
    search_help_text = "Words of the text"
    ordering = ("-id",)
    sortable_by = ("shown_at",)
    show_full_result_count = False
    paginator = InfinitePaginator
    fields = (
        "shown_at", "shown_level", "what", "text", "kind", "queue", "shown_subject", "shown_record", "worker",
        "shown_facts",
    )  # fmt: skip

    shown_at = column("at", "at (UTC)", moment)

    shown_level = column("level", "level", lambda level: str(Level(level).label), ordered=False, label=LEVEL_LABELS)
    shown_record = column("record_id", "record", lambda pk: link("jobs_backlogrecord_change", pk, pk), ordered=False)
    shown_subject = column(
        lambda line: anchor(log_url([line.subject], line.kind), line.subject) if line.subject else "", "subject"
    )
    shown_facts = column(lambda line: facts_as_lines(line.facts), "facts")


def facts_as_lines(facts: Mapping[str, Any]) -> SafeString | str:
    """A line a fact, `name: value`; records that a claim looked at as a table, with the keys that ranked them."""
    if not facts:
        return "none"
    words = (
        (name.replace("_", " "), _describe(name, value)) for name, value in facts.items() if name not in CANDIDATES
    )
    claimed, left = facts.get("claimed") or [], facts.get("left") or []
    # a line names only some of the claimed records: the ranks of the records left follow all of the claimed ones
    places = [(rank, "claimed", record) for rank, record in enumerate(claimed, 1)]
    places += [(rank, "left", record) for rank, record in enumerate(left, facts.get("count", len(claimed)) + 1)]
    rows = (
        (
            rank, became, record.get("title", ""), record.get("priority", ""), record.get("rank_day") or "none",
            record.get("tried_at") or "", span(record.get("expected_seconds")), record.get("id", ""),
        )
        for rank, became, record in places
    )  # fmt: skip
    headers = ("rank", "", "title", "priority", "rank day", "tried at", "last took", "record")
    lines = format_html_join("", "<li>{}: {}</li>", words)
    return format_html('<ul class="mb-3">{}</ul>{}', lines, table(headers, rows, empty=""))


def _describe(name: str, value: Any) -> str:
    if name == "decided_by":
        return REASONS.get(value, value) or "nothing: no other record was ready"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if value is None or isinstance(value, bool):
        return {None: "not known", True: "yes", False: "no"}[value]
    return str(value)
