"""*Pause until…* of the lists of sources and policies: the page that asks until when and why."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.widgets import INPUT_CLASSES

from declarations.surfaces import pausing
from declarations.surfaces.admin.asking import is_confirmed, question
from external.formatting import moment

MEANS = (
    "No backups of it begin, and what waits is taken off the backlog; what runs goes on. At the "
    "instant that is given it goes on by itself; without one when a person resumes it."
)
SHOWN = 20


def pause_until(
    admin: Any, request: HttpRequest, rows: QuerySet[Any], pause: Callable[..., int]
) -> HttpResponse | None:
    """The question, or None once it was answered and done. `pause` takes until, reason and by."""
    if is_confirmed(request):
        try:
            asked = pausing.asked(request.POST)
            changed = pause(by=request.user.get_username(), **asked)
        except ValueError as error:
            admin.message_user(request, str(error), messages.ERROR)
        else:
            end = f"until {moment(asked['until'])} UTC" if asked["until"] else "until resumed"
            admin.message_user(request, f"{changed} paused {end}. Backups that run already go on.")
            return None
    fields = pausing.fields(" ".join(INPUT_CLASSES))
    return question(request, "Pause", MEANS, rows[:SHOWN], asks=f"Pause {rows.count():,}?", fields=fields)
