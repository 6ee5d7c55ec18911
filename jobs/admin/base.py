from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import ModelAdmin


class ReadOnlyAdmin(ModelAdmin):
    """For rows that machines write: to look at, not to touch."""

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def moment(instant: datetime | None) -> str:
    """An instant to the second, in UTC, as people read it; empty for none."""
    return f"{instant:%Y-%m-%d %H:%M:%S}" if instant else ""


def span(seconds: float | None) -> str:
    """A duration in its two largest units, as `2 h 5 min`; empty for none."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min {int(seconds % 60)} s"


def ago(instant: datetime | None) -> str:
    """How long ago an instant was; empty for none."""
    if instant is None:
        return ""
    return f"{span(max(0.0, (timezone.now() - instant).total_seconds()))} ago"
