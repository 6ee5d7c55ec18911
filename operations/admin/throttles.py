"""Throttles: what runs, waits and lies in the bucket of each now; edited while they are at work."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from unfold.decorators import display

from jobs.durations import span
from jobs.models import Lane, Throttle
from operations import throttles
from operations.admin.base import ReadOnlyAdmin
from operations.admin.declared import DeclaredAdmin, DeclaredForm
from operations.declarations import Throttles
from operations.throttles import Live

LIVE = ("state", "in_flight", "ready", "waiting", "shown_rate", "shown_tokens", "next_token")

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


class ThrottleForm(DeclaredForm):
    service = Throttles

    class Meta:
        model = Throttle
        fields = tuple(Throttles.declaration.model_fields)


@admin.register(Throttle)
class ThrottleAdmin(DeclaredAdmin):
    """A throttle; editing it takes effect at the next claim, and what runs goes on."""

    when_empty = "A throttle is a cap on what runs at the same instant, shared by schedules and policies."
    form = ThrottleForm
    list_display = ("name", *LIVE)
    search_fields = ("name",)
    readonly_fields = LIVE

    def get_fieldsets(self, request: HttpRequest, obj: Throttle | None = None) -> Any:
        edited = (None, {"fields": ThrottleForm.Meta.fields})
        return (edited, ("Now", {"fields": LIVE})) if obj else (edited,)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        found = super().get_changelist_instance(request)
        shown = list(found.result_list)
        numbers = {live.throttle.pk: live for live in throttles.live([throttle.pk for throttle in shown])}
        for throttle in shown:
            throttle._live = numbers.get(throttle.pk)
        found.result_list = shown
        return found

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

    when_empty = "A lane is what names the same throttles; the scheduler makes it when it is needed."
    list_display = ("id", "throttle_ids")
