"""Sources: search, filters, status, and what a person may want done at once."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.html import format_html
from unfold.admin import ModelAdmin, TabularInline
from unfold.decorators import display

from jobs.admin.base import SMALL_TEXT_AREAS, ago, moment, span
from jobs.admin.tables import table
from sources import planning
from sources.admin.protection import LABELS, PolicyOfSourceFilter, StatusFilter, present, with_status
from sources.models import Assignment, Backup, Source

SHOWN_BACKUPS = 10


class AssignmentInline(TabularInline):
    """The policies of a source, with what their last backup was."""

    model = Assignment
    extra = 0
    hide_title = True
    autocomplete_fields = ("policy",)
    fields = ("policy", "last_backup", "took", "next_backup", "failures", "record")
    readonly_fields = ("last_backup", "took", "next_backup", "failures", "record")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Assignment]:
        return super().get_queryset(request).select_related("policy__schedule", "source")  # type: ignore[no-any-return]

    @admin.display(description="last success (UTC)")
    def last_backup(self, assignment: Assignment) -> str:
        return moment(assignment.last_backup_at)

    @admin.display(description="took")
    def took(self, assignment: Assignment) -> str:
        return span(assignment.last_backup_for)

    @admin.display(description="next-backup date (UTC)")
    def next_backup(self, assignment: Assignment) -> str:
        return moment(assignment.next_backup_at)

    @admin.display(description="backlog")
    def record(self, assignment: Assignment) -> str:
        if assignment.pk is None:
            return ""
        subject = urlencode({"subject": planning.subject_of(assignment.pk)})
        return format_html('<a href="{}?{}">records</a>', reverse("admin:jobs_backlogrecord_changelist"), subject)


@admin.register(Source)
class SourceAdmin(ModelAdmin):
    """Every source, whether it is protected, and when it is next."""

    list_display = ("name", "kind", "policies", "last_success", "next_backup", "failures", "shown_status")
    list_filter = (StatusFilter, "kind", PolicyOfSourceFilter, ("paused_at", admin.EmptyFieldListFilter))
    search_fields = ("name", "address", "path")
    inlines = (AssignmentInline,)
    actions = ("back_up_now", "pause", "resume")
    formfield_overrides = SMALL_TEXT_AREAS
    readonly_fields = ("shown_paused_at", "shown_last_woken_at", "last_backups")
    fieldsets = (
        (None, {"fields": ("name", "kind", "address", "port", "path", "options", "secret", "host_key")}),
        (
            "Wake-on-LAN",
            {"fields": ("mac_address", "wake_address", "wake_port", "wake_allowed", "shown_last_woken_at")},
        ),
        ("State", {"fields": ("shown_paused_at", "last_backups")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Source]:
        sources = super().get_queryset(request).with_protection()
        return with_status(sources, present()).prefetch_related("assignments__policy__schedule")

    @admin.display(description="policies")
    def policies(self, source: Source) -> str:
        return ", ".join(str(assignment.policy) for assignment in source.assignments.all())

    @admin.display(description="last success", ordering="last_backup_at")
    def last_success(self, source: Any) -> str:
        return ago(source.last_backup_at)

    @admin.display(description="next-backup date (UTC)", ordering="next_backup_at")
    def next_backup(self, source: Any) -> str:
        return moment(source.next_backup_at)

    @admin.display(description="failures", ordering="failures")
    def failures(self, source: Any) -> str:
        return str(source.failures or "")

    @display(description="status", label=LABELS, ordering="status")
    def shown_status(self, source: Any) -> str:
        return str(source.status)

    @admin.display(description="paused since (UTC)")
    def shown_paused_at(self, source: Source) -> str:
        return moment(source.paused_at) or "not paused"

    @admin.display(description="last woken (UTC)")
    def shown_last_woken_at(self, source: Source) -> str:
        return moment(source.last_woken_at) or "never"

    @admin.display(description="last backups")
    def last_backups(self, source: Source) -> str:
        related = Backup.objects.select_related("assignment__policy__schedule")
        rows = (
            (
                format_html('<a href="{}">{}</a>', reverse("admin:sources_backup_change", args=[backup.pk]), backup.pk),
                backup.assignment.policy,
                moment(backup.started_at),
                span((backup.ended_at - backup.started_at).total_seconds()),
                filesizeformat(backup.size),
                backup.files,
                "with warnings" if backup.warnings else "good",
            )
            for backup in related.filter(assignment__source=source.pk)[:SHOWN_BACKUPS]
        )
        headers = ("backup", "policy", "started (UTC)", "took", "size", "files", "result")
        return table(headers, rows, empty="none yet")

    @admin.action(description="Back up now", permissions=["change"])
    def back_up_now(self, request: HttpRequest, sources: QuerySet[Source]) -> None:
        active = Assignment.objects.filter(source__in=sources.values("pk"), source__paused_at=None)
        moved = planning.back_up_now(active)
        message = f"{moved} backups were put at the head of the backlog; what runs already was left alone."
        if paused := sources.filter(paused_at__isnull=False).count():
            message += f" {paused} paused sources were left out: resume them first."
        self.message_user(request, message, messages.SUCCESS if moved else messages.WARNING)

    @admin.action(description="Pause: no more backups until resumed", permissions=["change"])
    def pause(self, request: HttpRequest, sources: QuerySet[Source]) -> None:
        paused = planning.pause(sources)
        self.message_user(request, f"{paused} sources were paused. Backups that run already go on.")

    @admin.action(description="Resume", permissions=["change"])
    def resume(self, request: HttpRequest, sources: QuerySet[Source]) -> None:
        resumed = planning.resume(sources)
        self.message_user(request, f"{resumed} sources were resumed; what is due is on the backlog.")

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """A new assignment is due at once."""
        super().save_related(request, form, formsets, change)
        assignments = list(form.instance.assignments.values_list("pk", flat=True))
        transaction.on_commit(lambda: planning.emit_due(None, assignments))
