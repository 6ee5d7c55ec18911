"""*Pause until…* of lists: the page that asks until when and why."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.widgets import INPUT_CLASSES

from declarations.surfaces import pausing
from declarations.surfaces.admin.confirmations import is_confirmed, question
from external.formatting import moment

SHOWN = 20


def pause_until(
    admin: Any, request: HttpRequest, rows: QuerySet[Any], pause: Callable[..., int], means: str
) -> HttpResponse | None:
    """The question, which explains that by `means`. None once it was answered and done. `pause` takes until, reason and
    by."""
    if is_confirmed(request):
        try:
            asked = pausing.asked(request.POST)
            changed = pause(by=request.user.get_username(), **asked)
        except ValueError as error:
            admin.message_user(request, str(error), messages.ERROR)
        else:
            end = f" until {moment(asked['until'])} UTC" if asked["until"] else ""
            kept = "" if end else " An end that was given before stays."
            admin.message_user(request, f"{changed} paused{end}. Running records continue.{kept}")
            return None
    fields = pausing.fields(" ".join(INPUT_CLASSES))
    return question(request, "Pause", means, rows[:SHOWN], asks=f"Pause {rows.count():,}?", fields=fields)
