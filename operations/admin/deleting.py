"""Deleting rows that others use: what stands against it is told in sentences."""

from typing import Any

from django.contrib import messages
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from unfold.admin import ModelAdmin


class ToldObstacles(ModelAdmin):
    """The admin of rows that the database protects while they are in use: in place of the question whether to delete
    them, its pages say what stands against it. Django would list each row that uses one, and there may be millions."""

    delete_confirmation_template = "operations/delete_confirmation.html"
    delete_selected_confirmation_template = "operations/delete_selected_confirmation.html"

    in_use: type[Exception] | tuple[type[Exception], ...] = IntegrityError
    """What deleting raises for rows that have come into use since the page was looked at: by Django's look, which is a
    ProtectedError, or by the database's."""

    def obstacles_to_deleting(self, rows: list[Any]) -> list[str]:
        """Why not all of `rows` can be deleted, a sentence without full stop for each reason; empty: they can.

        May hold links.
        """
        raise NotImplementedError

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Who gets here may delete them: both callers have asked."""
        rows = list(objs)
        counts = {self.opts.verbose_name_plural: len(rows)}
        return [str(row) for row in rows], counts, set(), self.obstacles_to_deleting(rows)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> Any:
        try:
            return super().delete_view(request, object_id, extra_context)
        except self.in_use as error:  # since it was looked at
            return self._refused(request, f"It has come into use meanwhile; look again.{self.describe_use(error)}")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        if request.method != "POST":
            return super().changelist_view(request, extra_context)
        try:
            with transaction.atomic():  # Django writes into its log before it deletes
                return super().changelist_view(request, extra_context)
        except self.in_use as error:
            return self._refused(
                request, f"One has come into use meanwhile; none was deleted.{self.describe_use(error)}"
            )

    def describe_use(self, error: Exception) -> str:
        """A sentence, behind a space, about what uses it now; empty where the error has none for people."""
        return "" if isinstance(error, IntegrityError) else f" {error}"

    def _refused(self, request: HttpRequest, text: str) -> HttpResponse:
        self.message_user(request, text, messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())
