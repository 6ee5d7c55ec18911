"""Sources: search, filters, status, and what a person may want done at once."""

from datetime import UTC, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.html import format_html
from unfold.admin import TabularInline
from unfold.decorators import display

from jobs.clock import database_clock
from jobs.durations import span
from operations.admin.base import SMALL_TEXT_AREAS, ago, link, moment
from operations.admin.decisions import log_url
from operations.admin.declared import DeclaredForm, DeclaredPages
from operations.admin.tables import table
from sources import edits, planning
from sources.admin.agents import AGENT_FIELDS, AgentActions, AgentFields
from sources.admin.browsing import BrowsesBackups
from sources.admin.protection import (
    LABELS,
    STATE_LABELS,
    PolicyOfSourceFilter,
    StatusFilter,
    present,
    proved,
    with_alert_state,
    with_status,
)
from sources.domain.not_kept import not_kept
from sources.edits import Sources
from sources.models import Assignment, Backup, Source

SHOWN_BACKUPS = 10

SNOOZE_HOURS = 2
MORNING = time(9, tzinfo=UTC)


class AssignmentInline(TabularInline):
    """The policies of a source, with what their last backup was."""

    model = Assignment
    extra = 0
    hide_title = True
    autocomplete_fields = ("policy",)
    fields = (
        "policy",
        "shown_state",
        "last_backup",
        "next_backup",
        "failures",
        "held_back",
        "record",
    )
    readonly_fields = fields[1:]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Assignment]:
        related = super().get_queryset(request).select_related("policy__schedule", "source")
        return with_alert_state(related, present())

    @display(description="state", label=STATE_LABELS)
    def shown_state(self, assignment: Any) -> str:
        return str(getattr(assignment, "state", ""))

    @admin.display(description="last success, proved (UTC)")
    def last_backup(self, assignment: Assignment) -> str:
        return format_html("{}<br>{}", moment(assignment.last_backup_at), proved(assignment))

    @admin.display(description="next-backup date (UTC)")
    def next_backup(self, assignment: Assignment) -> str:
        return moment(assignment.next_backup_at)

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


class SourceForm(DeclaredForm):
    service = Sources

    class Meta:
        model = Source
        fields = tuple(Sources.declaration.model_fields)


@admin.register(Source)
class SourceAdmin(BrowsesBackups, AgentFields, AgentActions, DeclaredPages):
    """Every source, whether it is protected, and when it is next."""

    list_display = (
        "name",
        "kind",
        "policies",
        "last_success",
        "last_proved",
        "next_backup",
        "checked_in",
        "failures",
        "shown_status",
    )
    list_filter = (
        StatusFilter,
        "kind",
        PolicyOfSourceFilter,
        ("paused_at", admin.EmptyFieldListFilter),
        ("checked_in_at", admin.EmptyFieldListFilter),
    )
    search_fields = ("name", "address", "path", "hostname")
    actions_detail = (*BrowsesBackups.actions_detail, *AgentActions.actions_detail)
    form = SourceForm
    inlines = (AssignmentInline,)
    actions = (
        *("back_up_now", "pause", "pause_and_stop", "resume"),
        *("snooze_for_hours", "snooze_until_tomorrow", "end_the_snooze"),
    )
    formfield_overrides = SMALL_TEXT_AREAS
    readonly_fields = ("shown_paused_at", "shown_last_woken_at", "last_backups", "log", "not_kept", *AGENT_FIELDS)
    fieldsets = (
        (None, {"fields": ("name", "kind", "address", "port", "path", "options", "secret", "host_key")}),
        (
            "Wake-on-LAN",
            {"fields": ("mac_address", "wake_address", "wake_port", "wake_allowed", "shown_last_woken_at")},
        ),
        ("Agent", {"fields": AGENT_FIELDS}),
        ("State", {"fields": ("shown_paused_at", "log", "not_kept", "last_backups")}),
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

    @admin.display(description="proved restorable", ordering="proved_at")
    def last_proved(self, source: Any) -> str:
        return ago(source.proved_at)

    @admin.display(description="next-backup date (UTC)", ordering="next_backup_at")
    def next_backup(self, source: Any) -> str:
        return moment(source.next_backup_at)

    @admin.display(description="checked in", ordering="checked_in_at")
    def checked_in(self, source: Source) -> str:
        return ago(source.checked_in_at)

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
        if source.last_woken_at is None:
            return "never"
        return f"{moment(source.last_woken_at)}, {source.wakes} magic packet{'s' if source.wakes != 1 else ''} so far"

    @admin.display(description="its log")
    def log(self, source: Source) -> str:
        if source.pk is None:
            return ""
        subjects = [planning.subject_of_source(source.pk)]
        for assignment in source.assignments.all():
            subjects += [planning.subject_of(assignment.pk), planning.subject_of_policy(assignment.policy_id)]
        address = log_url(subjects, *planning.OF_ASSIGNMENTS)
        return format_html('<a href="{}" class="text-link">what was done, to it and by its policies</a>', address)

    @admin.display(description="not kept by backups")
    def not_kept(self, source: Source) -> str:
        return "; ".join(not_kept(source.kind)) if source.kind else ""

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

    @admin.action(description="Pause and stop what runs", permissions=["change"])
    def pause_and_stop(self, request: HttpRequest, sources: QuerySet[Source]) -> None:
        paused = planning.pause(sources, stop=True)
        self.message_user(request, f"{paused} sources were paused. Their running backups are being stopped.")

    @admin.action(description="Resume", permissions=["change"])
    def resume(self, request: HttpRequest, sources: QuerySet[Source]) -> None:
        resumed = planning.resume(sources)
        self.message_user(request, f"{resumed} sources were resumed; what is due is on the backlog.")

    @admin.action(description=f"Snooze for {SNOOZE_HOURS} hours", permissions=["change"])
    def snooze_for_hours(self, request: HttpRequest, sources: QuerySet[Source]) -> None:
        now = database_clock()
        self._snooze(request, sources, now + timedelta(hours=SNOOZE_HOURS), now)

    @admin.action(description="Snooze until tomorrow 09:00 UTC", permissions=["change"])
    def snooze_until_tomorrow(self, request: HttpRequest, sources: QuerySet[Source]) -> None:
        now = database_clock()
        tomorrow = now.astimezone(UTC).date() + timedelta(days=1)
        self._snooze(request, sources, datetime.combine(tomorrow, MORNING), now)

    def _snooze(self, request: HttpRequest, sources: QuerySet[Source], until: datetime, now: datetime) -> None:
        snoozed = planning.snooze(sources, until, now)
        text = f"{snoozed} sources are not backed up before {moment(until)} UTC. Backups that run already go on."
        self.message_user(request, text)

    @admin.action(description="End the snooze", permissions=["change"])
    def end_the_snooze(self, request: HttpRequest, sources: QuerySet[Source]) -> None:
        ended = planning.unsnooze(sources)
        message = f"{ended} sources are not snoozed any more; what waited for that is ready."
        self.message_user(request, message, messages.SUCCESS if ended else messages.WARNING)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """A new assignment is due at once."""
        super().save_related(request, form, formsets, change)
        edits.emit_after_commit(form.instance.assignments.values_list("pk", flat=True))
