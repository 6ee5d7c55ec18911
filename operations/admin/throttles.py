"""Throttles: what runs, waits and lies in the bucket of each now; edited while they are at work."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from unfold.decorators import display

from jobs import throttle_verbs, throttles
from jobs.durations import span
from jobs.models import Lane, Throttle
from jobs.throttle_verbs import InUse
from jobs.throttles import Live
from operations.admin.base import ReadOnlyAdmin
from operations.admin.deleting import ToldObstacles
from schedules.models import Schedule

LIVE = ("state", "in_flight", "ready", "waiting", "shown_rate", "shown_tokens", "next_token")
MOST_NAMED = 20
"""Schedules that are told to stand against deleting."""

STATES = {"open": "success", "full": "warning", "no token": "warning", "paused": "danger"}


def _live(throttle: Throttle) -> Live:
    """Its numbers: those that the list asked for all at once, or asked for now and kept for the page."""
    found: Live | None = getattr(throttle, "_live", None)
    if found is None:
        [found] = throttles.live([throttle.pk])
        throttle._live = found  # type: ignore[attr-defined]
    return found


def state_of(live: Live) -> str:
    """In a word, why its next record would not begin, or `open`."""
    if live.throttle.max_in_flight == 0:
        return "paused"
    if live.in_flight >= live.throttle.max_in_flight:
        return "full"
    return "no token" if live.next_token_in else "open"


def _schedules_under(rows: list[Throttle]) -> list[str]:
    """A sentence for each schedule that names one of `rows`, with a link, as far as a page has room for them."""
    found = Schedule.objects.filter(throttle__in=rows).select_related("throttle").order_by("throttle__name", "name")
    schedules = list(found[: MOST_NAMED + 1])
    said: list[str] = [
        format_html(
            '{}: the schedule <a href="{}" class="text-link">{}</a>; choose another throttle there, or none',
            schedule.throttle,
            reverse("admin:schedules_schedule_change", args=[schedule.pk]),
            schedule,
        )
        for schedule in schedules[:MOST_NAMED]
    ]
    return [*said, "… and further schedules"] if len(schedules) > MOST_NAMED else said


@admin.register(Throttle)
class ThrottleAdmin(ToldObstacles):
    """A throttle; editing it takes effect at the next claim, and what runs goes on."""

    list_display = ("name", *LIVE)
    search_fields = ("name",)
    readonly_fields = LIVE
    in_use = InUse

    def get_fieldsets(self, request: HttpRequest, obj: Throttle | None = None) -> Any:
        edited = (None, {"fields": ("name", "max_in_flight", "rate", "burst")})
        return (edited, ("Now", {"fields": LIVE})) if obj else (edited,)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        found = super().get_changelist_instance(request)
        shown = list(found.result_list)
        numbers = {live.throttle.pk: live for live in throttles.live([throttle.pk for throttle in shown])}
        for throttle in shown:
            throttle._live = numbers.get(throttle.pk)
        found.result_list = shown
        return found

    def save_model(self, request: HttpRequest, obj: Throttle, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        [live] = throttles.live([obj.pk])
        for said in throttle_verbs.warnings(obj, live):
            self.message_user(request, f"{obj.name}: {said}.", messages.WARNING)

    def obstacles_to_deleting(self, rows: list[Throttle]) -> list[str]:
        """Schedules name one, or unfinished records, which would go on unthrottled."""
        asked = throttles.live([throttle.pk for throttle in rows])
        records = [said for live in asked if (said := throttle_verbs.obstacle_to_removing(live))]
        return [*_schedules_under(rows), *(f"{said}; let them end, or cancel them" for said in records)]

    def delete_model(self, request: HttpRequest, obj: Throttle) -> None:
        throttle_verbs.remove([obj])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Throttle]) -> None:
        throttle_verbs.remove(queryset)

    @display(description="state", label=STATES)
    def state(self, throttle: Throttle) -> str:
        return state_of(_live(throttle))

    @admin.display(description="in flight")
    def in_flight(self, throttle: Throttle) -> str:
        return f"{_live(throttle).in_flight:,} of {throttle.max_in_flight:,}"

    @admin.display(description="ready")
    def ready(self, throttle: Throttle) -> str:
        return _live(throttle).describe("ready")

    @admin.display(description="waiting")
    def waiting(self, throttle: Throttle) -> str:
        return _live(throttle).describe("waiting")

    @admin.display(description="rate", ordering="rate")
    def shown_rate(self, throttle: Throttle) -> str:
        return f"{throttle.rate:g} a second, burst {throttle.bucket_size:g}" if throttle.rate else ""

    @admin.display(description="tokens")
    def shown_tokens(self, throttle: Throttle) -> str:
        tokens = _live(throttle).tokens
        return "" if tokens is None else f"{tokens:.1f}"

    @admin.display(description="next token")
    def next_token(self, throttle: Throttle) -> str:
        seconds = _live(throttle).next_token_in
        return "" if seconds is None else f"in {span(seconds)}" if seconds else "now"


@admin.register(Lane)
class LaneAdmin(ReadOnlyAdmin):
    """Which sets of throttles are in use."""

    list_display = ("id", "throttle_ids")
