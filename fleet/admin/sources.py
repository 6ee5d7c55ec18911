"""Sources: search, filters, status, and actions that a user may want at once."""

from datetime import UTC, time
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.views.main import ORDER_VAR
from django.core.exceptions import ValidationError
from django.db.models import Prefetch, QuerySet
from django.forms import BaseInlineFormSet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from unfold.admin import TabularInline
from unfold.decorators import display
from unfold.views import ChangeList

from declarations.surfaces.admin.base import (
    SMALL_TEXT_AREAS,
    ByIds,
    SingleSearchAdmin,
    column,
    link,
    moment,
    roughly_ago,
    to_the_minute,
)  # fmt: skip
from declarations.surfaces.admin.pause_page import pause_until
from engines.not_kept import not_kept
from external.formatting import several
from fleet import pauses, source_edits
from fleet.admin.agents import AGENT_FIELDS, Agents
from fleet.admin.browsing import BrowsesBackups
from fleet.admin.deletion import RemovesInBackground
from fleet.admin.protection import ErrorFilter, PolicyOfSourceFilter, StatusOfSourceFilter, proved
from fleet.admin.source_form import SettingsByKind
from fleet.admin.source_page import SourcePage
from fleet.status import with_assignment_status, with_status
from fleet.status.ordering import DATES, FEW, by_date, worst_first
from operations.admin.decisions import log_url
from sources import planning
from sources.domain.status import COLOURS, ProtectionStatus
from sources.models import Assignment, Policy, Source

MORNING = time(9, tzinfo=UTC)


class AssignmentFormSet(BaseInlineFormSet):  # type: ignore[type-arg]  # no generic at run time
    """Assignments of a source. As over the API, one is made and deleted, never moved: its dates and its record are its
    policy's.
    """

    def clean(self) -> None:
        super().clean()
        for form in self.initial_forms:
            row = form.instance
            if form in self.deleted_forms:
                if row.backups.exists() or row.copies.exclude(points=[]).exists():
                    page = link("sources_assignment_delete", row.pk, "its own page")
                    raise ValidationError(format_html(
                        "There are backups of {}, or copies: it is deleted on {}, which names what is deleted with it.",
                        row, page,
                    ))  # fmt: skip
            elif "policy" in form.changed_data:
                raise ValidationError("A policy cannot be exchanged: add the other one, and delete this one.")


class AssignmentInline(TabularInline):
    """The policies of a source, with their last backups."""

    model = Assignment
    formset = AssignmentFormSet
    hide_title = True
    autocomplete_fields = ("policy",)
    fields = (
        "policy",
        "shown_status",
        "last_backup",
        "next_backup",
        "failures",
        "held_back",
        "record",
    )
    readonly_fields = fields[1:]

    def get_extra(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> int:
        """Ask for the policy of a new source: without one it is never backed up."""
        return 0 if obj else 1

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """The policy, with its schedule, which has its name."""
        return super().formfield_for_foreignkey(
            db_field, request, **({"queryset": Policy.objects.select_related("schedule")} | kwargs)
        )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Assignment]:
        related = super().get_queryset(request).select_related("policy__schedule", "source")
        return with_assignment_status(related, timezone.now())

    @display(description="status", label=COLOURS)
    def shown_status(self, assignment: Any) -> str:
        return str(getattr(assignment, "status", ""))

    @admin.display(description="last success, proved (UTC)")
    def last_backup(self, assignment: Assignment) -> str:
        return format_html("{}<br>{}", moment(assignment.last_backup_at), proved(assignment))

    next_backup = column("next_backup_at", "next-backup date (UTC)", moment, ordered=False)

    @admin.display(description="held back")
    def held_back(self, assignment: Assignment) -> str:
        if assignment.held_back_since is None:
            return ""
        why = f"since {moment(assignment.held_back_since)} UTC: {assignment.held_back_why}"
        return link("sources_assignment_change", assignment.pk, why)

    @admin.display(description="backlog")
    def record(self, assignment: Assignment) -> str:
        if assignment.pk is None:
            return ""
        subject = urlencode({"subject": planning.subject_of(assignment.pk)})
        return format_html('<a href="{}?{}">records</a>', reverse("admin:jobs_backlogrecord_changelist"), subject)


class WorstFirstPage(ByIds):
    """A page of the list, with sources that need attention first unless another order is requested. The order is found
    for all sources at once: finding each source's status to sort them takes seconds.
    """

    def get_ordering_field_columns(self) -> dict[int, str]:
        """The arrow in the head of the table: at the status, unless another order is requested."""
        if ORDER_VAR in self.params:
            return super().get_ordering_field_columns()  # type: ignore[no-any-return]
        return {self.list_display.index("shown_status"): "asc"}

    def ids_of_page(self) -> list[Any]:
        by_status = str(self.list_display.index("shown_status"))
        asked = self.params.get(ORDER_VAR, by_status)
        first, order = (self.page_num - 1) * self.list_per_page, self.queryset.query.order_by
        if self.show_all and self.can_show_all:
            return super().ids_of_page()
        if self.result_count > FEW and order in [(f"{sign}{date}", "-pk") for date in DATES for sign in ("", "-")]:
            return by_date(self.queryset, order[0], first, self.list_per_page)
        if asked not in (by_status, f"-{by_status}"):
            return super().ids_of_page()
        if asked == by_status:
            return self._worst_first(first, self.list_per_page)
        if self.query.strip():  # of many found by words, the planner expects few: the end of the list takes long
            rows = self.queryset.prefetch_related(None).order_by("-status", "-name").values_list("pk", flat=True)
            return list(rows[first : first + self.list_per_page])
        end = max(0, self.result_count - first)
        return self._worst_first(max(0, end - self.list_per_page), min(end, self.list_per_page))[::-1]

    def _worst_first(self, first: int, most: int) -> list[Any]:
        """The ids of `most` sources from the number `first` on, counted from 0."""
        if self.params.get(StatusOfSourceFilter.parameter_name) in set(ProtectionStatus):  # all are in one
            by_name = self.queryset.prefetch_related(None).order_by("name").values_list("pk", flat=True)
            return list(by_name[first : first + most])
        few, now = self.result_count <= FEW, timezone.now()
        return list(worst_first(self.queryset, now, first=first, most=most, few=few))


@admin.register(Source)
class SourceAdmin(SourcePage, SingleSearchAdmin, RemovesInBackground, BrowsesBackups, Agents, SettingsByKind):
    """Every source, whether it is protected, and its next attempt."""

    when_empty = "A source is a thing to protect: a laptop, server, share, bucket, folder or database."
    list_display = (
        "name",
        "shown_status",
        "kind",
        "policies",
        "last_success",
        "last_proved",
        "next_backup",
        "checked_in",
    )
    list_filter = (
        StatusOfSourceFilter,
        ErrorFilter,
        "kind",
        PolicyOfSourceFilter,
        ("paused_at", admin.EmptyFieldListFilter),
        ("checked_in_at", admin.EmptyFieldListFilter),
    )
    search_fields = ("name", "address", "path", "hostname")
    actions_detail = (*SourcePage.actions_detail, *BrowsesBackups.actions_detail, *Agents.actions_detail)
    inlines = (AssignmentInline,)
    actions = (
        *("back_up_now", "pause", "pause_until", "pause_and_stop", "resume"),
        *SourcePage.actions,
        *RemovesInBackground.actions,
    )
    formfield_overrides = SMALL_TEXT_AREAS
    readonly_fields = ("shown_last_woken_at", "log", "not_kept", *AGENT_FIELDS)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return WorstFirstPage

    def get_queryset(self, request: HttpRequest) -> QuerySet[Source]:
        sources = super().get_queryset(request).with_protection()
        under = Prefetch("assignments", Assignment.objects.select_related("policy__schedule"))
        return with_status(sources, timezone.now()).prefetch_related(under)

    @admin.display(description="policies")
    def policies(self, source: Source) -> str:
        return ", ".join(str(assignment.policy) for assignment in source.assignments.all())

    last_success = column("last_backup_at", "last success", roughly_ago)
    last_proved = column("proved_at", "proved", roughly_ago)
    next_backup = column("next_backup_at", "next (UTC)", to_the_minute)
    checked_in = column("checked_in_at", "checked in", roughly_ago)

    @display(description="status", label=COLOURS, ordering="status")
    def shown_status(self, source: Any) -> str:
        return str(source.status)

    @admin.display(description="last woken (UTC)")
    def shown_last_woken_at(self, source: Source) -> str:
        if source.last_woken_at is None:
            return "never"
        return f"{moment(source.last_woken_at)}, {several(source.wakes, 'magic packet')} so far"

    @admin.display(description="its log")
    def log(self, source: Source) -> str:
        if source.pk is None:
            return ""
        subjects = [planning.subject_of_source(source.pk)]
        for assignment in source.assignments.all():
            subjects += [planning.subject_of(assignment.pk), planning.subject_of_policy(assignment.policy_id)]
        address = log_url(subjects, *planning.OF_ASSIGNMENTS)
        return format_html('<a href="{}" class="text-link">its log, with that of its policies</a>', address)

    @admin.display(description="not kept by backups")
    def not_kept(self, source: Source) -> str:
        return "; ".join(not_kept(source.kind)) if source.kind else ""

    @admin.action(description="Back up now", permissions=["change"])
    def back_up_now(self, request: HttpRequest, sources: QuerySet[Source]) -> None:
        ids = sources.values("pk")
        moved = planning.back_up_now(Assignment.objects.filter(source__in=ids), asked_by=str(request.user))
        put = f"{several(moved, 'backup')} put at the head of the backlog"
        message = f"{put if moved else 'No source was left to back up'}; running backups continue."
        planned = Assignment.objects.active().values("source")
        if idle := Source.objects.filter(pk__in=ids).exclude(pk__in=planned).count():
            message += f" Left out, being paused, retired or under no enabled policy: {idle:,}."
        self.message_user(request, message, messages.SUCCESS if moved else messages.WARNING)

    @admin.action(description="Pause: no more backups until resumed", permissions=["change"])
    def pause(self, request: HttpRequest, sources: QuerySet[Source]) -> None:
        paused = planning.pause(sources, by=request.user.get_username())
        self.message_user(request, f"{several(paused, 'source')} paused. Running backups continue.")

    @admin.action(description="Pause until…", permissions=["change"])
    def pause_until(self, request: HttpRequest, sources: QuerySet[Source]) -> HttpResponse | None:
        return pause_until(self, request, sources, partial(planning.pause, sources), pauses.MEANS)

    @admin.action(description="Pause, and stop running backups", permissions=["change"])
    def pause_and_stop(self, request: HttpRequest, sources: QuerySet[Source]) -> None:
        paused = planning.pause(sources, stop=True, by=request.user.get_username())
        self.message_user(request, f"{several(paused, 'source')} paused. Backups that run are being stopped.")

    @admin.action(description="Resume", permissions=["change"])
    def resume(self, request: HttpRequest, sources: QuerySet[Source]) -> None:
        resumed = planning.resume(sources, by=request.user.get_username())
        self.message_user(request, f"{several(resumed, 'source')} resumed; due sources are on the backlog.")

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """A new assignment is due at once."""
        super().save_related(request, form, formsets, change)
        source_edits.emit_after_commit(form.instance.assignments.values_list("pk", flat=True))
