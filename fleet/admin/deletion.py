"""Deletion of rows with backups: the page that lists everything deleted, and asks whether their files go, too."""

from collections.abc import Iterable, Iterator
from shlex import quote
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from backups.upkeep import removals
from declarations.surfaces.admin.confirmations import button, is_confirmed, question
from declarations.surfaces.admin.row_history import ModelAdmin
from declarations.surfaces.web import audit
from jobs.conf import PROGRAM
from sources.models import Assignment, Copy, Format, Repository
from storage.places.location import joined

MEANS = (
    "It runs in the background and begins at once: from then on nothing is backed up or edited. If all files are "
    "deleted, too, nothing can be restored any more. Otherwise the scheduler forgets the backups, and their files "
    "stay in the repository, with RECOVER.txt, which explains how to get them back."
)
NAMED = 20


def left_behind(assignments: Iterable[Assignment]) -> Iterator[str]:
    """Sentences about the files that stay in repositories when assignments are deleted alone, and how to
    delete them.
    """
    for row in assignments:
        copies = Copy.objects.filter(assignment=row).exclude(points=[])
        homes = Repository.objects.filter(Q(backups__assignment=row) | Q(copies__in=copies)).distinct().order_by("name")
        for home in homes:
            yield (
                f"The files of {row} stay in the repository {home}, and no retention removes them any more. To have "
                f"them deleted, too, delete its source instead, by its page or `{PROGRAM} sources remove "
                f"{quote(row.source.name)} --with-backups`; or afterwards by hand: {_by_hand(home, row.directory)}"
            )


def _by_hand(repository: Repository, folder: str) -> str:
    if repository.format == Format.RESTIC:
        return f"`restic snapshots --tag assignment={folder}` lists them for `restic forget` and `restic prune`"
    if repository.remote or repository.encrypted:
        return f"`rclone purge` of the folder {folder}, through the remote that RECOVER.txt there describes"
    return f"the folder {joined(repository.location, folder)}"


class RemovesInBackground(ModelAdmin):
    """The admin of rows that may have backups. A row without any is deleted at once, as any other row."""

    actions: Any = ("delete_selected",)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse edits of a row that is being deleted. The theme gives the id of a row where it asks for buttons."""
        row_id = obj.pk if isinstance(obj, self.model) else obj
        is_going = obj is not None and f"{self.opts.model_name}:{row_id}" in self._all_going(request)
        return super().has_change_permission(request, obj) and not is_going

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> Any:
        if request.method == "GET" and unquote(object_id).isdecimal() and self._all_going(request):
            for row in self.model._default_manager.filter(pk=unquote(object_id)):
                if text := self._going(request, row):
                    self.message_user(request, f"{row}: {text}.", messages.WARNING)
        return super().change_view(request, object_id, *args, **kwargs)

    def _going(self, request: HttpRequest, row: Any) -> str:
        """The progress of its deletion; empty if it is not being deleted."""
        return removals.obstacle(row, self._all_going(request))

    def _all_going(self, request: HttpRequest) -> frozenset[str]:
        """The rows that are being deleted, asked once a request."""
        if "sources.removals" not in request.META:
            request.META["sources.removals"] = removals.under_way()
        found: frozenset[str] = request.META["sources.removals"]
        return found

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> Any:
        row = self.get_object(request, unquote(object_id))
        if row is None or not self.has_delete_permission(request, row):
            return super().delete_view(request, object_id, extra_context)
        label = f"{self.opts.app_label}_{self.opts.model_name}"
        back = reverse(f"admin:{label}_change", args=[row.pk])
        if text := removals.obstacle(row):
            self.message_user(request, f"{row}: {text}.", messages.WARNING)
            return redirect(back)
        response = self._ask_or_begin(request, [row], back=back)
        return response or super().delete_view(request, object_id, extra_context)

    @admin.action(description="Delete", permissions=["delete"])
    def delete_selected(self, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        found = [row for row in rows if not self._going(request, row)]
        if found and (response := self._ask_or_begin(request, found)):
            return response
        from django.contrib.admin.actions import delete_selected

        return delete_selected(self, request, rows)

    def in_the_way(self, rows: list[Any]) -> bool:
        """True if other rows use one of them, backups aside: Django's own page names those."""
        return False

    def _ask_or_begin(self, request: HttpRequest, rows: list[Any], back: str = "") -> HttpResponse | None:
        """The page with the question, or the response once it was answered; None if there is nothing to ask here."""
        goes = removals.contents(rows)
        if not (goes.backups or goes.copies) or self.in_the_way(rows):
            return None
        if not self.has_delete_permission(request):
            raise PermissionDenied
        one = (
            f"{self.opts.verbose_name} {rows[0]}"
            if len(rows) == 1
            else f"{len(rows):,} {self.opts.verbose_name_plural}"
        )
        kept = request.POST.get("backups")
        if not is_confirmed(request) or kept not in ("delete", "keep"):
            lines = [*map(str, rows[:NAMED]), *([f"and {len(rows) - NAMED:,} more"] if len(rows) > NAMED else [])]
            others = [button("Delete, and leave the files", submit=1, name="backups", value="keep")]
            others += [button("Delete with all files", submit=1, name="backups", value="delete", variant="danger")]
            asks, shown = f"Delete {one}, with {goes}?", lines if len(rows) > 1 else ()
            return question(request, f"Delete {one}", MEANS, shown, asks=asks, back=back, buttons=others)
        row_id = rows[0].pk if len(rows) == 1 else None
        audit.write(self.model, row_id, one, f"Deletion began, files: {kept}.")
        removals.start_all(rows, with_backups=kept == "delete", by=str(request.user))
        text = f"{one} {'is' if len(rows) == 1 else 'are'} being deleted in the background, with {goes}."
        self.message_user(request, text[:1].upper() + text[1:])
        return redirect(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")
