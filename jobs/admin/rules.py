"""What a person edits beside retry policies: throttles, schedules."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from jobs.admin.base import ReadOnlyAdmin, moment
from jobs.models import Lane, Schedule, Throttle


@admin.register(Throttle)
class ThrottleAdmin(ModelAdmin):
    """A throttle; editing it takes effect at the next claim."""

    list_display = ("name", "max_in_flight")
    search_fields = ("name",)


@admin.register(Lane)
class LaneAdmin(ReadOnlyAdmin):
    """Which sets of throttles are in use."""

    list_display = ("id", "throttle_ids")


@admin.register(Schedule)
class ScheduleAdmin(ModelAdmin):
    """Schedules. A policy's is edited with the policy."""

    list_display = ("name", "cron", "zone", "kind", "enabled", "priority", "throttle", "retry_policy", "shown_next")
    list_filter = ("kind", "enabled")
    list_select_related = ("throttle", "retry_policy")
    search_fields = ("name",)
    readonly_fields = ("shown_next",)

    @admin.display(description="next trigger (UTC)", ordering="next_trigger_at")
    def shown_next(self, schedule: Schedule) -> str:
        return moment(schedule.next_trigger_at)

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Whose provider is the assignments belongs to a policy: edited there, so that dates are recomputed."""
        if obj is not None and obj.provider == "assignments":
            editable = {field.name for field in Schedule._meta.fields if field.editable and not field.primary_key}
            return (*sorted(editable), "shown_next")
        return self.readonly_fields
