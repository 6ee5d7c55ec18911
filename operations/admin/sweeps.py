"""The sweeps of the progressive schedule: one line a tier, to look at."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.clock import database_clock
from jobs.durations import span
from jobs.models import Sweep
from operations.admin.base import ReadOnlyAdmin, ago, moment
from operations.admin.tables import table
from operations.sweep_facts import COUNT_TO, TierFacts, tier_facts

COLUMNS = ("records", "every", "wait for a sweep", "last sweep (UTC)", "", "took", "left some", "next (UTC)", "late by")

TOLERATED = timedelta(minutes=2)
"""A sweep that a worker does in place of the qcluster comes a minute or two after its slot began."""

ABOUT = (
    "Records whose retry policy is progressive wait for the next sweep that covers their age, however often they "
    "failed. A sweep takes the newest first; what it left because it reached its greatest number waits for the next "
    "one. By hand: manage.py process_backlog DAYS."
)


@admin.register(Sweep)
class SweepAdmin(ReadOnlyAdmin):
    """The page of tiers. A row of this model is a tier that has been swept; the page shows all."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = admin.site.each_context(request) | {
            "title": "Sweeps",
            "opts": self.model._meta,
            "cl": self.get_changelist_instance(request),
            "content": _page(),
        }
        return TemplateResponse(request, "admin/base_site.html", context)


def _page() -> SafeString:
    rows = [_row(one) for one in tier_facts(database_clock())]
    return format_html('<p class="mb-6">{}</p>{}', ABOUT, table(COLUMNS, rows, empty=""))


def _row(one: TierFacts) -> tuple[object, ...]:
    days = one.tier.max_age_days
    return (
        "up to 1 day old" if days == 1 else f"up to {days} days old",
        span(one.tier.every),
        f"{min(one.waiting, COUNT_TO):,}{'+' if one.waiting > COUNT_TO else ''}",
        moment(one.swept_at) or "never",
        ago(one.swept_at),
        f"{one.swept:,}" if one.swept_at else "",
        "yes" if one.left_some else "",
        moment(one.next_at),
        span(one.late_by.total_seconds()) if one.late_by > TOLERATED else "",
    )
