"""What was restored, and what is being."""

from typing import Any

from django.contrib import admin
from django.template.defaultfilters import filesizeformat
from django.utils.safestring import SafeString
from unfold.decorators import display

from jobs.models import BacklogRecord
from operations.admin.base import ReadOnlyAdmin, link, moment
from sources.models import Progress, Restore
from sources.restores.asking import KIND, describe_target

OUTCOMES = {
    "succeeded": "success", "incomplete": "warning", "failed": "danger", "cancelled": "warning", "under way": "info",
}  # fmt: skip


@admin.register(Restore)
class RestoreAdmin(ReadOnlyAdmin):
    """Every restore that was asked for. One is asked for on the page of its source."""

    list_display = (
        "source",
        "shown_point",
        "where",
        "shown_asked_at",
        "asked_by",
        "shown_outcome",
        "files",
        "shown_size",
    )
    list_filter = ("outcome", "to")
    search_fields = ("assignment__source__name", "asked_by", "target")
    list_select_related = ("assignment__source", "assignment__policy__schedule")
    fields = (
        "source", "policy", "shown_point", "paths", "where", "overwrite", "asked_by", "shown_asked_at", "record",
        "progress", "shown_outcome", "error", "shown_ended_at", "files", "shown_size", "present", "not_set", "failed",
    )  # fmt: skip

    @admin.display(description="source", ordering="assignment__source__name")
    def source(self, restore: Restore) -> str:
        return restore.assignment.source.name

    @admin.display(description="policy")
    def policy(self, restore: Restore) -> str:
        return str(restore.assignment.policy)

    @admin.display(description="as of (point, UTC)", ordering="point")
    def shown_point(self, restore: Restore) -> str:
        return restore.point

    @admin.display(description="to")
    def where(self, restore: Restore) -> str:
        return describe_target(restore)

    @admin.display(description="asked for (UTC)", ordering="asked_at")
    def shown_asked_at(self, restore: Restore) -> str:
        return moment(restore.asked_at)

    @admin.display(description="ended (UTC)")
    def shown_ended_at(self, restore: Restore) -> str:
        return moment(restore.ended_at)

    @display(description="outcome", label=OUTCOMES)
    def shown_outcome(self, restore: Restore) -> str:
        return restore.outcome or "under way"

    @admin.display(description="size", ordering="size")
    def shown_size(self, restore: Restore) -> str:
        return "" if restore.size is None else filesizeformat(restore.size)

    @admin.display(description="its record")
    def record(self, restore: Restore) -> SafeString | str:
        """Where it can be cancelled, and its attempts are listed."""
        found = _record(restore)
        return link("jobs_backlogrecord_change", found.pk, found) if found else ""

    @admin.display(description="so far")
    def progress(self, restore: Restore) -> str:
        record = None if restore.outcome else _record(restore)
        progress = Progress.objects.filter(record_id=record.pk).first() if record else None
        if progress is None:
            return ""
        done, total = filesizeformat(progress.bytes_done), filesizeformat(progress.bytes_total)
        return f"{done} of {total}, {progress.files_done:,} files"


def _record(restore: Restore) -> Any:
    return BacklogRecord.objects.filter(kind=KIND, subject=str(restore.pk)).order_by("-pk").first()
