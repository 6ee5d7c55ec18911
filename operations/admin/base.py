from datetime import datetime
from typing import Any

from django.db import models
from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminTextareaWidget

from jobs.durations import span
from jobs.formatting import moment as moment

_THREE_LINES = {"widget": UnfoldAdminTextareaWidget(attrs={"rows": 3})}
SMALL_TEXT_AREAS: dict[Any, Any] = {models.JSONField: _THREE_LINES, models.TextField: _THREE_LINES}
"""`formfield_overrides` for what is written as JSON or pasted: three lines, not ten."""


class ReadOnlyRows:
    """For rows that machines write: to look at, not to touch."""

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdmin(ReadOnlyRows, ModelAdmin):
    """The list and page of a table that only machines write."""


def ago(instant: datetime | None) -> str:
    """How long ago an instant was; empty for none."""
    if instant is None:
        return ""
    return f"{span(max(0.0, (timezone.now() - instant).total_seconds()))} ago"
