"""The home page: protection, sources that need the user, running and coming work, and the servers and room behind it;
its facts alone, which an open page requests every few seconds; and its buttons.

Each part is for users who may view its table; it costs a bounded number of statements, whatever the fleet's size.
"""

import hashlib
import re
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from django.contrib import admin, messages
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_POST

from alerting.conditions import UNTOLD, is_untold
from alerting.models import AlertRoute
from dashboard import checklist, days, needs, work
from dashboard.pages import page, staff
from declarations.surfaces import pausing
from declarations.surfaces.web.permissions import may_operate
from fleet.foreseeing.latest_look import latest_look
from jobs import backlog
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Worker
from jobs.prepared_statements import execute
from operations.backlog.summary import workers_of
from operations.backlog.summary_statements import RUNNING
from operations.hold import held, sentence
from sources.models import Backup, Repository, Source

SECONDS = re.compile(r" [\d.]+ s\b")
FRESH_SECONDS, FRESH_TIMES, LONGEST_FRESH_SECONDS = 5, 50, 25
"""Seconds, or multiples of the time that gathering took, for which the facts serve all open pages of users with the
same permissions in this process: a fiftieth of a core. The last number is the most, however slow the database is. Each
page shows the instant of its facts; a page that is opened has those of that moment.
"""

Kept = tuple[str, str, float]
"""The facts as text, their ETag, and when they were gathered, on the monotonic clock."""


@staff
def home(request: HttpRequest) -> HttpResponse:
    text, etag, _ = _rendered(request)
    return page(
        request, "dashboard/home.html", "Home", facts=mark_safe(text), etag=etag, as_of=database_clock(),  # noqa: S308
        may_hold=may_operate(request),
    )  # fmt: skip


@staff
def home_facts(request: HttpRequest) -> HttpResponse:
    """The facts, or 304 if the page has them already; with their age in seconds."""
    text, etag, gathered_at = cache.get(_key(request)) or _rendered(request)
    is_known = request.headers.get("If-None-Match") == etag
    headers = {"ETag": etag, "Age": f"{monotonic() - gathered_at:.0f}"}
    return HttpResponse("" if is_known else text, status=304 if is_known else 200, headers=headers)


def _rendered(request: HttpRequest) -> Kept:
    """Render the present facts and keep them for a moment. The page holds no token, so unchanged facts read the same,
    but for seconds that count down.
    """
    began = monotonic()
    text = render_to_string("dashboard/facts.html", facts(request))
    kept = text, f'"{hashlib.sha256(SECONDS.sub("", text).encode()).hexdigest()[:32]}"', began
    fresh = max(FRESH_SECONDS, FRESH_TIMES * (monotonic() - began))
    cache.set(_key(request), kept, min(fresh, LONGEST_FRESH_SECONDS))
    return kept


def _key(request: HttpRequest) -> str:
    rights = " ".join(sorted(request.user.get_all_permissions()))
    return f"home:{hashlib.sha256(rights.encode()).hexdigest()}"


OF_SOURCES = ("back_up_now", "resume")
"""Actions of the list of sources that need no question."""


@admin.site.admin_view
@require_POST
def act(request: HttpRequest) -> HttpResponse:
    """POST of `do`, such as `back_up_now:7` or `resume_queue:backups`. Refused as the admin refuses it."""
    action, _, about = request.POST.get("do", "").partition(":")
    if action == "resume_queue":
        _resume_queue(request, about)
    elif action == "release":
        _release(request)
    elif action == "hold":
        _hold(request)
    elif action in OF_SOURCES and about.isdecimal():
        _to_source(request, action, int(about))
    else:
        return HttpResponseBadRequest("The home page has no such button. Go back, and load it again.\n")
    return redirect("home")


def _to_source(request: HttpRequest, action: str, source: int) -> None:
    page = admin.site.get_model_admin(Source)
    if action not in page.get_actions(request):
        raise PermissionDenied
    getattr(page, action)(request, Source.objects.filter(pk=source))


def _release(request: HttpRequest) -> None:
    if not may_operate(request):
        raise PermissionDenied
    done = backlog.release(by=str(request.user))
    messages.success(request, "Everything is resumed." if done else "Nothing was on hold.")


def _hold(request: HttpRequest) -> None:
    if not may_operate(request):
        raise PermissionDenied
    try:
        done = backlog.hold(by=str(request.user), **pausing.asked(request.POST))
        messages.success(request, "Everything is on hold." if done else "It already was.")
    except ValueError as error:
        messages.error(request, str(error))


def _resume_queue(request: HttpRequest, name: str) -> None:
    if not may_operate(request):
        raise PermissionDenied
    try:
        done = "is resumed" if backlog.resume_queue(name) else "was not paused"
        messages.success(request, f"Queue {name} {done}.")
    except ValueError:  # it was not in the settings, and had nothing but its pause, which is over
        messages.warning(request, f"There is no queue {name!r} any more.")


def facts(request: HttpRequest) -> dict[str, Any]:
    """The parts that the user of `request` may see, for `dashboard/facts.html`."""
    now = database_clock()
    found: dict[str, Any] = {}
    if may_look_at(request, Source):
        found |= needs.of_sources(request, now) | checklist.of(request) | {"risk": latest_look(now)}
    if may_look_at(request, BacklogRecord):
        found |= _work(now)
    workers = workers_of(now, execute(RUNNING, {}).fetchall()) if may_look_at(request, Worker) else None
    last_days = days.last_days(now) if may_look_at(request, Backup) else None
    hold = held()
    return found | {
        "held": sentence(hold) if hold else "",
        "may_release": may_operate(request),
        "workers": workers,
        "notices": needs.notices(request, workers, now),
        "untold": UNTOLD if may_look_at(request, AlertRoute) and is_untold() else "",
        "days": last_days,
        "repositories": days.repositories(last_days or [], now.astimezone(UTC).date())
        if may_look_at(request, Repository)
        else None,
    }


def may_look_at(request: HttpRequest, model: Any) -> bool:
    """True if the admin shows that table to this user."""
    return bool(admin.site.get_model_admin(model).has_view_permission(request))


def _work(now: datetime) -> dict[str, Any]:
    running, count = work.running(now)
    return {
        "running": running,
        "more_running": count - len(running),
        "coming": work.coming(now),
        "next_due": work.next_due(now),
        "opening": work.next_opening(),
    }
