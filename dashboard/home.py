"""What the home page says: who is protected and who needs a person, what runs, what comes, and on what it rests.

Each part is for those who may look at its table; it costs a bounded number of statements, whatever the fleet's size.
"""

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from dashboard import checklist, days, needs, storage, work
from dashboard.models import DayTotal
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Worker
from jobs.prepared import execute
from operations.backlog.summary import WorkerSummary, workers_of
from operations.backlog.summary_statements import RUNNING
from operations.hold import held, sentence
from operations.web.permissions import may_operate
from sources.models import Backup, Repository, Source


def facts(request: HttpRequest) -> dict[str, Any]:
    """The parts that the person of `request` may look at, for `dashboard/facts.html`."""
    now = database_clock()
    found: dict[str, Any] = {}
    if may_look_at(request, Source):
        found |= needs.of_sources(request, now) | checklist.of(request)
    if may_look_at(request, BacklogRecord):
        found |= _work(now)
    workers = _workers(now) if may_look_at(request, Worker) else None
    last_days = days.last_days(now) if may_look_at(request, Backup) else None
    hold = held()
    return found | {
        "held": sentence(hold) if hold else "",
        "may_release": may_operate(request),
        "workers": workers,
        "notices": needs.notices(request, workers, now),
        "days": last_days,
        "repositories": _repositories(last_days or [], now) if may_look_at(request, Repository) else None,
    }


def may_look_at(request: HttpRequest, model: Any) -> bool:
    """Whether the admin shows this person that table."""
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


def _workers(now: datetime) -> list[WorkerSummary]:
    return workers_of(now, execute(RUNNING, {}).fetchall())


def _repositories(last_days: list[DayTotal], now: datetime) -> list[storage.Room]:
    return storage.repositories(last_days, now.astimezone(UTC).date())
