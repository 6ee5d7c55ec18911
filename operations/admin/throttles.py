"""Throttles: the running and waiting records and the tokens of each now; edited while they are at work."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.decorators import display

from declarations.surfaces.admin.base import CompletingAdmin, ReadOnlyAdmin, column, moment
from declarations.surfaces.admin.declared_admin import DeclaredAdmin, DeclaredForm
from declarations.surfaces.admin.pause_page import pause_until
from jobs.models import Lane, Throttle
from operations import throttle_pauses, throttles
from operations.declarations import Throttles

LIVE = ("state", "pause", "in_flight", "ready", "waiting", "shown_rate", "shown_tokens", "next_token")

STATES = {"open": "success", "full": "warning", "no token": "warning", "paused": "danger"}


PAUSE_MEANS = (
    "None of its records begins; running ones continue. It resumes at the given instant, with as many in flight as "
    "before, or, without one, when a user resumes it."
)


class ThrottleForm(DeclaredForm):
    service = Throttles

    class Meta:
        model = Throttle
        fields = tuple(Throttles.declaration.model_fields)


def _live(heading: str, **facts: Any) -> Any:
    """The column of that heading, as `throttles.Live` shows it."""

    @display(description=heading, **facts)
    def show(self: "ThrottleAdmin", throttle: Throttle) -> str:
        return str(self.added(throttle).shown[heading])

    return show


def _pause(throttle: Throttle) -> str:
    end = f"until {moment(throttle.paused_until)}" if throttle.paused_until else ""
    return ": ".join(filter(None, (end, throttle.paused_why)))


@admin.register(Throttle)
class ThrottleAdmin(CompletingAdmin, DeclaredAdmin):
    """A throttle; an edit takes effect at the next claim, and running records continue."""

    when_empty = "A throttle is a cap on records that run at the same instant, shared by schedules and policies."
    adds = "live"
    actions = ("pause_until", "resume")
    form = ThrottleForm
    list_display = ("name", *LIVE)
    search_fields = ("name",)
    readonly_fields = LIVE

    state = _live("state", label=STATES)
    pause = column(_pause, "pause (UTC)", ordered=False)
    in_flight, ready, waiting = _live("in flight"), _live("ready"), _live("waiting")
    shown_rate = _live("rate", ordering="rate")
    shown_tokens, next_token = _live("tokens"), _live("next token")

    def get_fieldsets(self, request: HttpRequest, obj: Throttle | None = None) -> Any:
        edited = (None, {"fields": ThrottleForm.Meta.fields})
        return (edited, ("Now", {"fields": LIVE})) if obj else (edited,)

    @admin.action(description="Pause until…", permissions=["change"])
    def pause_until(self, request: HttpRequest, rows: QuerySet[Throttle]) -> HttpResponse | None:
        def pause(*, by: str, **asked: Any) -> int:
            return len([throttle_pauses.pause(row, **asked) for row in rows])

        return pause_until(self, request, rows, pause, PAUSE_MEANS)

    @admin.action(description="Resume: as many as before the pause", permissions=["change"])
    def resume(self, request: HttpRequest, rows: QuerySet[Throttle]) -> None:
        for row in rows:
            try:
                self.message_user(request, f"{throttle_pauses.resume(row).row}: resumed.")
            except ValueError as error:
                self.message_user(request, str(error), messages.ERROR)

    def complete(self, rows: list[Any]) -> None:
        """Give each throttle its numbers."""
        numbers = {live.throttle.pk: live for live in throttles.live([throttle.pk for throttle in rows])}
        for throttle in rows:
            throttle.live = numbers[throttle.pk]


@admin.register(Lane)
class LaneAdmin(ReadOnlyAdmin):
    """The sets of throttles that are in use."""

    when_empty = "A lane is the set of records that name the same throttles; the scheduler makes it when needed."
    list_display = ("id", "throttle_ids")
