"""The buttons of the home page: the actions of the admin's lists, for one row, that lead back."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from jobs import backlog
from operations.web.permissions import may_operate
from sources.models import Source

OF_SOURCES = ("back_up_now", "resume")
"""Actions of the list of sources that need no question."""


@admin.site.admin_view
@require_POST
def act(request: HttpRequest) -> HttpResponse:
    """POST of `do`, as `back_up_now:7` or `resume_queue:backups`. Refused as the admin refuses it."""
    action, _, about = request.POST.get("do", "").partition(":")
    if action == "resume_queue":
        _resume_queue(request, about)
    elif action == "release":
        _release(request)
    elif action in OF_SOURCES and about.isdecimal():
        _to_source(request, action, int(about))
    else:
        return HttpResponseBadRequest("The home page has no such button. Go back, and load it again.\n")
    return redirect("home")


def _to_source(request: HttpRequest, action: str, source: int) -> None:
    page = admin.site.get_model_admin(Source)
    offered: Any = page.get_actions(request)
    if action not in offered:
        raise PermissionDenied
    offered[action][0](page, request, Source.objects.filter(pk=source))


def _release(request: HttpRequest) -> None:
    if not may_operate(request):
        raise PermissionDenied
    done = backlog.release(by=str(request.user))
    messages.success(request, "Everything goes on." if done else "Nothing was on hold.")


def _resume_queue(request: HttpRequest, name: str) -> None:
    if not may_operate(request):
        raise PermissionDenied
    try:
        done = "goes on" if backlog.resume_queue(name) else "was not paused"
        messages.success(request, f"Queue {name} {done}.")
    except ValueError:  # it was not in the settings, and held nothing but its pause, which is over
        messages.warning(request, f"There is no queue {name!r} any more.")
