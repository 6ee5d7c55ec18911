from datetime import datetime
from typing import Any

from django.db import models
from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminTextareaWidget

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


def moment(instant: datetime | None) -> str:
    """An instant to the second, in UTC, as people read it; empty for none."""
    return f"{instant:%Y-%m-%d %H:%M:%S}" if instant else ""


def span(seconds: float | None) -> str:
    """A duration in its two largest units, as `2 h 5 min`, or one, as `2 h`; empty for none."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 3600:
        return _two(whole // 60, "min", whole % 60, "s")
    if whole < 86_400:
        return _two(whole // 3600, "h", whole % 3600 // 60, "min")
    return _two(whole // 86_400, "d", whole % 86_400 // 3600, "h")


def _two(larger: int, unit: str, smaller: int, smaller_unit: str) -> str:
    return f"{larger} {unit} {smaller} {smaller_unit}" if smaller else f"{larger} {unit}"


def ago(instant: datetime | None) -> str:
    """How long ago an instant was; empty for none."""
    if instant is None:
        return ""
    return f"{span(max(0.0, (timezone.now() - instant).total_seconds()))} ago"
