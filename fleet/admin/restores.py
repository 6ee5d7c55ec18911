"""Restores that wait, are under way, or have ended."""

from typing import Any

from django.contrib import admin
from django.template.defaultfilters import filesizeformat
from django.utils.safestring import SafeString
from unfold.decorators import display

from backups.restores.requests import ALLOWED, KIND, describe_target
from declarations.surfaces.admin.base import CompletingAdmin, ReadOnlyAdmin, column, link, moment, shortened
from external.formatting import several
from fleet.admin.protection import lines_of
from fleet.explaining.restores import UNDER_WAY, WAITING, states_of
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from sources.models import Progress, Restore

OUTCOMES = {
    "succeeded": "success", "incomplete": "warning", "failed": "danger", "cancelled": "warning", UNDER_WAY: "info",
    WAITING: "warning",
}  # fmt: skip


@admin.register(Restore)
class RestoreAdmin(CompletingAdmin, ReadOnlyAdmin):
    """Every restore that was requested. A new one is requested on the page of its source."""

    when_empty = "Each restore is listed here. One begins on the page of its source, by the button Restore."
    adds = "state"
    list_display = (
        "source",
        "shown_point",
        "where",
        "shown_asked_at",
        "asked_by",
        "shown_outcome",
        "short_error",
        "files",
        "shown_size",
    )
    list_filter = ("outcome", "to")
    search_fields = ("assignment__source__name", "asked_by", "target")
    list_select_related = ("assignment__source", "assignment__policy__schedule")
    fields = (
        "source", "policy", "shown_point", "shown_paths", "where", *ALLOWED, "user", "asked_by", "shown_asked_at",
        "record", "progress", "shown_outcome", "why", "error", "shown_ended_at", "files", "shown_size", "present",
        "shown_not_set", "shown_old", "shown_missing", "shown_failed",
    )  # fmt: skip

    source = column("assignment__source__name", "source")
    policy = column("assignment__policy", "policy", ordered=False)
    shown_point = column("point", "as of (point, UTC)")

    @admin.display(description="to")
    def where(self, restore: Restore) -> str:
        return describe_target(restore)

    shown_asked_at = column("asked_at", "asked for (UTC)", moment)
    shown_ended_at = column("ended_at", "ended (UTC)", moment, ordered=False)

    @display(description="outcome", label=OUTCOMES)
    def shown_outcome(self, restore: Restore) -> str:
        return str(self.added(restore).word)

    @admin.display(description="why it waits")
    def why(self, restore: Restore) -> str:
        return str(lines_of(self.added(restore).why))

    @admin.display(description="error, or why it waits")
    def short_error(self, restore: Restore) -> str:
        return shortened(next(iter([*self.added(restore).why, *restore.error.splitlines()]), ""))

    def complete(self, rows: list[Any]) -> None:
        """Give each restore its state."""
        states = states_of(rows, database_clock())
        for restore in rows:
            restore.state = states[restore.pk]

    shown_paths = column("paths", "what", lambda paths: lines_of(paths) or "all", ordered=False)
    shown_not_set = column("not_set", "could not be set", lines_of, ordered=False)
    shown_old = column("old", "as of an earlier point", lines_of, ordered=False)
    shown_missing = column("missing", "not in the point", lines_of, ordered=False)
    shown_failed = column("failed", "not restored", lines_of, ordered=False)
    shown_size = column("size", "size", filesizeformat)

    @admin.display(description="its record")
    def record(self, restore: Restore) -> SafeString | str:
        """The link to its record, where it can be cancelled, and its attempts are listed."""
        found = _record(restore)
        return link("jobs_backlogrecord_change", found.pk, found) if found else ""

    @admin.display(description="so far")
    def progress(self, restore: Restore) -> str:
        record = None if restore.outcome else _record(restore)
        progress = Progress.objects.filter(record_id=record.pk).first() if record else None
        if progress is None:
            return ""
        done, total = filesizeformat(progress.bytes_done), filesizeformat(progress.bytes_total)
        return f"{done} of {total}, {several(progress.files_done, 'file')}"


def _record(restore: Restore) -> Any:
    return BacklogRecord.objects.filter(kind=KIND, subject=str(restore.pk)).order_by("-pk").first()
