"""What was done: backups, and the state of each assignment."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe
from unfold.decorators import action, display

from jobs.durations import span
from operations.admin.asking import AsksFirst, is_confirmed, question
from operations.admin.base import ReadOnlyAdmin, moment
from operations.admin.decisions import log_url
from operations.admin.tables import table
from sources import held_back
from sources.admin.protection import STATE_LABELS, AlertStateFilter, PolicyFilter, present, proved, with_alert_state
from sources.backups import retention
from sources.models import Assignment, Backup, Progress
from sources.planning import OF_ASSIGNMENTS, subject_of
from sources.restores import drills

ACCEPT = "Looked at it: it is meant so"
ACCEPT_MEANS = "What is kept is removed again as its policy says: at the next backup, or soon."

DRILL = "Drill now"
DRILL_MEANS = "The newest point of each is restored into scratch space and compared, whatever its window."

Verb = Callable[..., int]

SHOWN_POINTS = 500


class PolicyOfBackupFilter(PolicyFilter):
    path = "assignment__policy"


@admin.register(Backup)
class BackupAdmin(ReadOnlyAdmin):
    """Every completed run."""

    list_display = (
        "source", "policy", "engine", "shown_started_at", "took", "shown_size", "files", "new", "changed", "removed",
        "shown_added", "result",
    )  # fmt: skip
    fields = (
        "source", "policy", "repository", "snapshot", "engine", "record_id", "attempt", "shown_started_at", "took",
        "shown_size", "files", "new", "changed", "unchanged", "removed", "shown_read", "shown_added", "shown_warnings",
    )  # fmt: skip
    list_filter = ("engine", "repository", PolicyOfBackupFilter)
    search_fields = ("assignment__source__name", "snapshot")
    list_select_related = ("assignment__source", "assignment__policy__schedule", "repository")
    date_hierarchy = "started_at"
    show_full_result_count = False

    @admin.display(description="source", ordering="assignment__source__name")
    def source(self, backup: Backup) -> str:
        return backup.assignment.source.name

    @admin.display(description="policy")
    def policy(self, backup: Backup) -> str:
        return str(backup.assignment.policy)

    @admin.display(description="started (UTC)", ordering="started_at")
    def shown_started_at(self, backup: Backup) -> str:
        return moment(backup.started_at)

    @admin.display(description="took")
    def took(self, backup: Backup) -> str:
        return span((backup.ended_at - backup.started_at).total_seconds())

    @admin.display(description="size", ordering="size")
    def shown_size(self, backup: Backup) -> str:
        return filesizeformat(backup.size)

    @admin.display(description="read", ordering="read")
    def shown_read(self, backup: Backup) -> str:
        return "" if backup.read is None else filesizeformat(backup.read)

    @admin.display(description="added", ordering="added")
    def shown_added(self, backup: Backup) -> str:
        return "" if backup.added is None else filesizeformat(backup.added)

    @admin.display(description="warnings")
    def shown_warnings(self, backup: Backup) -> str:
        return format_html_join(mark_safe("<br>"), "{}", ((each,) for each in backup.warnings))

    @display(description="result", label={"good": "success", "with warnings": "warning"})
    def result(self, backup: Backup) -> str:
        return "with warnings" if backup.warnings else "good"


@admin.register(Assignment)
class AssignmentAdmin(AsksFirst[Verb], ReadOnlyAdmin):
    """Sources under their policies: what the next decision about each knows. Edited with the source."""

    list_display = (
        "__str__", "shown_state", "last_backup", "shown_proved_at", "next_backup", "shown_overdue_since",
        "failures", "shown_held_back_since",
    )  # fmt: skip
    list_filter = (
        AlertStateFilter,
        PolicyFilter,
        ("vanished_at", admin.EmptyFieldListFilter),
        ("held_back_since", admin.EmptyFieldListFilter),
    )
    called = "assignment"
    actions = ("accept", "drill_now")
    actions_detail = ("accept_this", "drill_this_now")
    fields = (
        "source", "policy", "shown_state", "shown_overdue_since", "next_backup", "last_backup", "proved",
        "drill", "took", "size", "directory", "contacted", "failures", "skips", "shown_vanished_at",
        "shown_held_back_since", "held_back_why", "checked", "damage", "log", "points",
    )  # fmt: skip
    search_fields = ("source__name",)
    list_select_related = ("source", "policy__schedule")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Assignment]:
        return with_alert_state(super().get_queryset(request), present())

    def has_delete_permission(self, request: HttpRequest, obj: Assignment | None = None) -> bool:
        """Ending an assignment is a person's decision; the confirmation lists the backups that go with it."""
        return bool(request.user.has_perm("sources.delete_assignment"))

    @admin.action(description=ACCEPT, permissions=["operate"])
    def accept(self, request: HttpRequest, found: QuerySet[Assignment]) -> HttpResponse | None:
        return self.ask_or_do(request, found, ACCEPT, ACCEPT_MEANS, held_back.accept)

    @action(description=ACCEPT, url_path="accept", permissions=["operate"], icon="visibility")
    def accept_this(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.ask_or_do_for_one(request, object_id, ACCEPT, ACCEPT_MEANS, held_back.accept)

    @admin.action(description=DRILL, permissions=["operate"])
    def drill_now(self, request: HttpRequest, found: QuerySet[Assignment]) -> HttpResponse | None:
        return self.ask_or_do(request, found, DRILL, DRILL_MEANS, drills.drill_now)

    @action(description=DRILL, url_path="drill", permissions=["operate"], icon="verified")
    def drill_this_now(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.ask_or_do_for_one(request, object_id, DRILL, DRILL_MEANS, drills.drill_now)

    def idle_verbs(self, row: Assignment) -> set[str]:
        return set() if row.held_back_since else {"accept_this"}

    def ask_or_do(
        self, request: HttpRequest, rows: QuerySet[Assignment], name: str, means: str, verb: Verb
    ) -> HttpResponse | None:
        """The question, or None once the answer was yes and it is done."""
        if not is_confirmed(request):
            why = {ACCEPT: "held_back_why", DRILL: "drill_error"}[name]
            return question(request, name, means, [f"{each}: {getattr(each, why) or 'nothing wrong'}" for each in rows])
        changed = verb(list(rows.values_list("pk", flat=True)), by=str(request.user))
        text = f"{changed} assignment{'s' if changed != 1 else ''}" if changed else "there was nothing to do"
        self.message_user(request, f"{name}: {text}.", messages.SUCCESS if changed else messages.WARNING)
        return None

    @admin.display(description="proved (UTC)", ordering="proved_at")
    def shown_proved_at(self, assignment: Assignment) -> str:
        return "NOT RESTORABLE" if assignment.drill_error else moment(assignment.proved_at)

    @admin.display(description="held back (UTC)", ordering="held_back_since")
    def shown_held_back_since(self, assignment: Assignment) -> str:
        return moment(assignment.held_back_since)

    @display(description="state", label=STATE_LABELS, ordering="state")
    def shown_state(self, assignment: Any) -> str:
        return str(assignment.state)

    @admin.display(description="overdue (UTC)", ordering="overdue_since")
    def shown_overdue_since(self, assignment: Assignment) -> str:
        return moment(assignment.overdue_since)

    @admin.display(description="vanished in mid-backup (UTC)")
    def shown_vanished_at(self, assignment: Assignment) -> str:
        return moment(assignment.vanished_at)

    @admin.display(description="its log")
    def log(self, assignment: Assignment) -> str:
        address = log_url([subject_of(assignment.pk)], *OF_ASSIGNMENTS)
        return format_html('<a href="{}" class="text-link">what was done</a>', address)

    @admin.display(description="read and compared (UTC)")
    def checked(self, assignment: Assignment) -> str:
        found = getattr(assignment, "check_round", None)
        if found is None or found.checked_at is None:
            return "not yet"
        part = f"; {filesizeformat(found.read)} of {filesizeformat(found.total)} of this round" if found.part else ""
        return f"last {moment(found.checked_at)}; all of it {moment(found.ended_at) or 'not yet'}{part}"

    @admin.display(description="damaged")
    def damage(self, assignment: Assignment) -> str:
        found = getattr(assignment, "check_round", None)
        names = ("point", "path", "place", "why")
        rows = [[each[name] for name in names] for each in (found.damage if found else [])]
        return table(("point", "path", "lies in", "what is wrong"), rows, empty="nothing is known to be")

    @admin.display(description="points in time")
    def points(self, assignment: Assignment) -> str:
        page = reverse("admin:sources_source_restore", args=[assignment.source_id]) + f"?assignment={assignment.pk}"
        link = '<a href="{}&point={}" class="text-link">{}</a>'
        rows = [
            (
                format_html(link, page, each.point.name, moment(each.point.started_at)),
                ", ".join(each.reasons) or "is removed after the next backup",
            )
            for each in retention.decide(assignment)[:SHOWN_POINTS]
        ]
        return table(("of (UTC)", "stays since it is"), rows, empty="none")

    @admin.display(description="last success (UTC)", ordering="last_backup_at")
    def last_backup(self, assignment: Assignment) -> str:
        return moment(assignment.last_backup_at)

    @admin.display(description="last proved restorable (UTC)", ordering="proved_at")
    def proved(self, assignment: Assignment) -> str:
        return proved(assignment)

    @admin.display(description="last drill")
    def drill(self, assignment: Assignment) -> str:
        facts = assignment.drill_facts
        rows = [(name, f"{number:,} rows") for name, number in facts.get("tables", {}).items()]
        rows += [("left out", each) for each in facts.get("notes", [])]
        if "of_files" in facts:
            rows.insert(0, ("files", f"{facts['files']:,} of {facts['of_files']:,}, {filesizeformat(facts['size'])}"))
        return table(("what", "restored and compared"), rows, empty="none yet")

    @admin.display(description="took", ordering="last_backup_for")
    def took(self, assignment: Assignment) -> str:
        return span(assignment.last_backup_for)

    @admin.display(description="size", ordering="last_backup_size")
    def size(self, assignment: Assignment) -> str:
        return "" if assignment.last_backup_size is None else filesizeformat(assignment.last_backup_size)

    @admin.display(description="last answered (UTC)", ordering="last_contacted_at")
    def contacted(self, assignment: Assignment) -> str:
        return moment(assignment.last_contacted_at)

    @admin.display(description="next-backup date (UTC)", ordering="next_backup_at")
    def next_backup(self, assignment: Assignment) -> str:
        return moment(assignment.next_backup_at)


@admin.register(Progress)
class ProgressAdmin(ReadOnlyAdmin):
    """How far the running backups are."""

    list_display = ("record_id", "attempt", "bytes_done", "bytes_total", "files_done", "updated_at")
