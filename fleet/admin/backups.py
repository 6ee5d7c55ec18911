"""Pages of past work: backups, and the status of each assignment."""

import re
from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.text import smart_split, unescape_string_literal
from unfold.decorators import display

from backups.restores import drills
from backups.upkeep import checks, copies, retention_decisions
from declarations.surfaces.admin.base import (
    OfManyRows,
    PagedByIds,
    ReadOnlyAdmin,
    SingleSearchAdmin,
    TablePaginator,
    column,
    moment,
)
from declarations.surfaces.admin.confirmations import AsksFirst, asked, is_confirmed, question
from declarations.surfaces.admin.row_history import ModelAdmin
from declarations.surfaces.admin.tables import table
from engines import ENGINES, engine_for
from external.durations import span
from external.formatting import several
from fleet import assignment_findings
from fleet.admin.backup_pages import BackupPage, BackupPaginator, of_many_sources, searched
from fleet.admin.deletion import left_behind
from fleet.admin.protection import PolicyFilter, StatusFilter, lines_of, proved, table_of_copies
from fleet.past_backups import of_policy
from fleet.status import with_assignment_status
from operations.admin.decisions import log_url
from operations.admin.filters import OneOf
from sources.domain.status import COLOURS
from sources.models import Assignment, Backup, Format, Progress
from sources.planning import OF_ASSIGNMENTS, held_back, subject_of

ACCEPT = "Looked at it: it is right"
ACCEPT_MEANS = "Its points are removed again as its policy says, by the next backup or soon."

DRILL = "Drill now"
DRILL_MEANS = "The newest point of each is restored into scratch space and compared, regardless of its window."

CHECK = "Check now"
CHECK_MEANS = (
    "Everything that the current round has not read yet is read and compared with the manifests, or everything if no "
    "round is under way, regardless of the window: in that repository, or in all repositories of an assignment, one "
    "after the other. The page of each assignment shows the result."
)
COPY = "Copy now"
COPY_MEANS = "Points that are not in the second repository of their policy are copied there, regardless of its window."

Verb = Callable[..., int]

SHOWN_POINTS = 500


def doubts(rows: QuerySet[Assignment], name: str) -> dict[int, str]:
    """The reason why a verb may be wanted, by assignment; empty for a verb that needs no reason."""
    reasons: dict[str, Callable[[Assignment], str]] = {
        ACCEPT: lambda each: each.held_back_why,
        DRILL: lambda each: each.drill_error,
        COPY: lambda each: next((found.text for found in wrong.get(each.pk, ()) if found.kind == "copies"), ""),
    }
    wrong = assignment_findings.of([each.pk for each in rows], timezone.now()) if name == COPY else {}
    return {each.pk: reasons[name](each) for each in rows} if name in reasons else {}


def done(admin: ModelAdmin, request: HttpRequest, name: str, changed: int) -> None:
    """Report the number of assignments that a verb changed."""
    text = several(changed, "assignment") if changed else "there was nothing to do"
    admin.message_user(request, f"{name}: {text}.", messages.SUCCESS if changed else messages.WARNING)


class PolicyOfBackupFilter(PolicyFilter):
    def of(self, queryset: QuerySet[Any], chosen: int) -> QuerySet[Any]:
        return queryset.filter(of_policy(chosen))


class EngineFilter(OneOf):
    """A filter by engine. The choices are those that exist: a DISTINCT would read every backup."""

    title = parameter_name = "engine"
    has_others = True

    def names(self) -> list[str]:
        return sorted({engine_for(kind).name for kind in ENGINES} | {str(Format.RESTIC.value)})

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(engine=self.value()) if self.value() else queryset


@admin.register(Backup)
class BackupAdmin(OfManyRows, ReadOnlyAdmin):
    """Every completed run."""

    when_empty = "Each completed backup is listed here, with its size and what was new in it."
    list_display = (
        "source", "policy", "engine", "shown_started_at", "took", "shown_size", "files", "new", "changed", "removed",
        "shown_added", "result",
    )  # fmt: skip
    fields = (
        "source", "policy", "repository", "snapshot", "engine", "record_id", "attempt", "shown_started_at", "took",
        "shown_size", "files", "new", "changed", "unchanged", "removed", "shown_read", "shown_added", "shown_warnings",
        "shown_not_kept",
    )  # fmt: skip
    list_filter = (EngineFilter, "repository", PolicyOfBackupFilter, "ended_at")
    search_fields = ("assignment__source__name", "snapshot")
    search_help_text = "Words from the name of the source, or the beginning of the name of a point"
    list_select_related = ("assignment__source", "assignment__policy__schedule", "repository")
    paginator = BackupPaginator

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Backup], search_term: str
    ) -> tuple[QuerySet[Backup], bool]:
        return searched(request, queryset, search_term), False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[BackupPage]:
        return BackupPage

    source = column("assignment__source__name", "source")
    policy = column("assignment__policy", "policy", ordered=False)
    shown_started_at = column("started_at", "started (UTC)", moment)

    @admin.display(description="took")
    def took(self, backup: Backup) -> str:
        return span((backup.ended_at - backup.started_at).total_seconds())

    shown_size = column("size", "size", filesizeformat)
    shown_read = column("read", "read", filesizeformat)
    shown_added = column("added", "added", filesizeformat)

    shown_not_kept = column("not_kept", "not kept", lines_of, ordered=False)
    shown_warnings = column("warnings", "warnings", lines_of, ordered=False)

    @display(description="result", label={"good": "success", "with warnings": "warning"})
    def result(self, backup: Backup) -> str:
        return "with warnings" if backup.warnings else "good"


@admin.register(Assignment)
class AssignmentAdmin(AsksFirst[Verb], SingleSearchAdmin, PagedByIds, ReadOnlyAdmin):
    """Sources under their policies: the facts on which the next decision about each depends. Edited with the source."""

    when_empty = "An assignment is a source under a policy; it is added on the page of the source."
    list_display = (
        "__str__", "shown_status", "last_backup", "shown_proved_at", "next_backup", "shown_overdue_since",
        "failures", "shown_held_back_since",
    )  # fmt: skip
    list_filter = (
        StatusFilter,
        PolicyFilter,
        ("vanished_at", admin.EmptyFieldListFilter),
        ("held_back_since", admin.EmptyFieldListFilter),
    )
    called = "assignment"
    actions = ("accept", "copy_now", "drill_now", "check_now")
    actions_detail = ("accept_this", "copy_this", "drill_this", "check_this")
    fields = (
        "source", "policy", "shown_status", "shown_overdue_since", "next_backup", "last_backup", "proved",
        "drill", "took", "size", "directory", "contacted", "failures", "skips", "losses", "shown_vanished_at",
        "shown_held_back_since", "held_back_why", "checked", "damage", "copies", "log", "points",
    )  # fmt: skip
    search_fields = ("source__name",)
    list_select_related = ("source", "policy__schedule")
    paginator = TablePaginator
    show_full_result_count = False  # it would be counted twice

    def many_found(self, rows: QuerySet[Any], found: QuerySet[Any], text: str) -> QuerySet[Any]:
        is_quoted = re.compile(r"""(["']).*\1""", re.DOTALL).fullmatch
        words = (unescape_string_literal(word) if is_quoted(word) else word for word in smart_split(text))
        return rows.filter(of_many_sources(words))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Assignment]:
        return with_assignment_status(super().get_queryset(request), timezone.now())

    def has_delete_permission(self, request: HttpRequest, obj: Assignment | None = None) -> bool:
        """Ending an assignment is an operator's decision; the confirmation lists the backups that go with it."""
        return bool(request.user.has_perm("sources.delete_assignment"))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """The rows that stay, then those that go. No account may delete backups alone; with their
        assignment they go.
        """
        rows = list(objs)
        counts = {"assignments": len(rows), "backups": Backup.objects.filter(assignment__in=rows).count()}
        return [*left_behind(rows), *map(str, rows)], counts, set(), []

    accept, accept_this = asked("accept", ACCEPT, ACCEPT_MEANS, held_back.accept, "visibility")
    drill_now, drill_this = asked("drill_now", DRILL, DRILL_MEANS, drills.drill_now, "verified")
    check_now, check_this = asked("check_now", CHECK, CHECK_MEANS, checks.check_now, "fact_check")
    copy_now, copy_this = asked("copy_now", COPY, COPY_MEANS, copies.copy_now, "file_copy")

    def idle_verbs(self, row: Assignment) -> set[str]:
        idle = set() if row.held_back_since else {"accept_this"}
        return idle if row.policy.copy_to_id else idle | {"copy_this"}

    def ask_or_do(
        self, request: HttpRequest, rows: QuerySet[Assignment], name: str, means: str, verb: Verb
    ) -> HttpResponse | None:
        """The question, or None once the answer was yes and it is done."""
        if not is_confirmed(request):
            why = doubts(rows, name)
            lines = [f"{each}: {why[each.pk] or 'nothing wrong'}" if why else str(each) for each in rows]
            return question(request, name, means, lines)
        done(self, request, name, verb(list(rows.values_list("pk", flat=True)), by=str(request.user)))
        return None

    @admin.display(description="proved (UTC)", ordering="proved_at")
    def shown_proved_at(self, assignment: Assignment) -> str:
        return "NOT RESTORABLE" if assignment.drill_error else moment(assignment.proved_at)

    shown_held_back_since = column("held_back_since", "held back (UTC)", moment)

    @display(description="status", label=COLOURS, ordering="status")
    def shown_status(self, assignment: Any) -> str:
        return str(assignment.status)

    shown_overdue_since = column("overdue_since", "overdue (UTC)", moment)
    shown_vanished_at = column("vanished_at", "vanished in mid-backup (UTC)", moment, ordered=False)

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
        return f"last {moment(found.checked_at)}; all files {moment(found.ended_at) or 'not yet'}{part}"

    @admin.display(description="damaged")
    def damage(self, assignment: Assignment) -> str:
        found = getattr(assignment, "check_round", None)
        names = ("point", "path", "place", "why")
        rows = [[each[name] for name in names] for each in (found.damage if found else [])]
        return table(("point", "path", "repository", "problem"), rows, empty="no damage is known")

    @admin.display(description="copies")
    def copies(self, assignment: Assignment) -> str:
        return table_of_copies(assignment.copies.all()) or "none"

    @admin.display(description="points in time")
    def points(self, assignment: Assignment) -> str:
        page = reverse("admin:sources_source_restore", args=[assignment.source_id]) + f"?assignment={assignment.pk}"
        link = '<a href="{}&point={}" class="text-link">{}</a>'
        rows = [
            (
                format_html(link, page, each.point.name, moment(each.point.started_at)),
                ", ".join(each.reasons) or "is removed after the next backup",
            )
            for each in retention_decisions.decide(assignment)[:SHOWN_POINTS]
        ]
        return table(("of (UTC)", "stays since it is"), rows, empty="none")

    last_backup = column("last_backup_at", "last success (UTC)", moment)

    @admin.display(description="last proved restorable (UTC)", ordering="proved_at")
    def proved(self, assignment: Assignment) -> str:
        return proved(assignment)

    @admin.display(description="last drill")
    def drill(self, assignment: Assignment) -> str:
        facts = assignment.drill_facts
        rows = [(name, several(number, "row")) for name, number in facts.get("tables", {}).items()]
        rows += [("left out", each) for each in facts.get("notes", [])]
        if "of_files" in facts:
            rows.insert(0, ("files", f"{facts['files']:,} of {facts['of_files']:,}, {filesizeformat(facts['size'])}"))
        return table(("what", "restored and compared"), rows, empty="none yet")

    took = column("last_backup_for", "took", span)
    size = column("last_backup_size", "size", filesizeformat)
    contacted = column("last_contacted_at", "last answered (UTC)", moment)
    next_backup = column("next_backup_at", "next-backup date (UTC)", moment)


@admin.register(Progress)
class ProgressAdmin(ReadOnlyAdmin):
    """The progress of running backups."""

    when_empty = "Running backups are listed here, with their progress."
    list_display = ("record_id", "attempt", "bytes_done", "bytes_total", "files_done", "updated_at")
