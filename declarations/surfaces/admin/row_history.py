"""Model admins whose rows have their history from the audit: actions here and everywhere else."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin as PlainModelAdmin
from unfold.decorators import display

from audit import entries
from audit.models import AuditEntry, Verb
from declarations.surfaces.admin.list_parts import checkbox_of
from declarations.surfaces.admin.tables import table
from external.formatting import moment

COLUMNS = ("at (UTC)", "who", "by way of", "what was done")
SHOWN = 200


class ModelAdmin(PlainModelAdmin):
    """The theme's model admin, with the audit as history. Triggers see changes by forms; a sentence is noted."""

    show_facets = admin.ShowFacets.NEVER
    """Each choice of each filter would count the table: 10 s and more of a million rows."""
    list_sections = ()
    """The theme asks for it twice for each row. Where it is missing, a template lists all attributes of the admin to
    find out why, which took a sixth of the time of a list."""

    @display(description=PlainModelAdmin.action_checkbox.short_description)
    def action_checkbox(self, obj: Any) -> SafeString:
        """The theme's, made once."""
        return checkbox_of(obj.pk)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Nothing: the trigger has seen it."""

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Note a sentence about an action that no row shows; the trigger has seen the changed fields of a form."""
        if isinstance(message, str):
            entries.note(type(obj), obj.pk, str(obj), message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        """Nothing: the trigger has seen it."""

    def rows_of_history(self, row: Any) -> Sequence[entries.About]:
        """The rows that are edited as one thing with it, itself among them."""
        return [(type(row), row.pk)]

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[no-any-return]
        if not self.has_view_or_change_permission(request, row):
            raise PermissionDenied
        found = entries.of_rows(self.rows_of_history(row)).order_by("-pk")[:SHOWN]
        context = admin.site.each_context(request) | {
            "title": f"History of {row}", "subtitle": None, "opts": self.opts, "object": row,
            "content": history(list(found)), **(extra_context or {}),
        }  # fmt: skip
        return TemplateResponse(request, "admin/base_site.html", context)


def history(found: list[AuditEntry]) -> SafeString | str:
    """Entries as a table, the newest first."""
    at = '<span class="whitespace-nowrap">{}</span>'
    rows = (
        (format_html(at, moment(each["at"])), each["who"], each["via"], done(each)) for each in entries.facts(found)
    )
    return table(COLUMNS, rows, empty="Nothing has been done to it since the audit began.")


def done(found: dict[str, Any]) -> SafeString | str:
    """The text of an entry: a line for each field; those of a row that is new or gone are folded."""
    if found["verb"] == Verb.DID:
        return str(found["text"])
    lines = format_html_join("", "<li>{}</li>", ((line,) for line in entries.changes_as_text(found)))
    listed = format_html('<ul style="overflow-wrap: anywhere">{}</ul>', lines)
    if found["verb"] == Verb.CHANGED or not lines:
        return listed or str(found["verb"])
    return format_html('<details><summary class="whitespace-nowrap">{}</summary>{}</details>', found["verb"], listed)
