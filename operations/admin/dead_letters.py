"""The page of dead letters: what failed records say, how many say it, and a button to retry all of them."""

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action

from jobs import backlog
from jobs.models import BacklogRecord
from operations.admin.asking import button, posting
from operations.admin.base import link, moment, shortened
from operations.admin.operating import RETRY_MEANS
from operations.admin.tables import table
from operations.backlog.dead_letters import DeadLetter, DeadLetters, dead_letters
from operations.backlog.selection import filtered
from operations.web.permissions import may_look, may_operate

COLUMNS = ("records", "what they say", "kinds", "first and last (UTC)", "example", "")

SHOWN_GROUPS = 100

SHOWN_LENGTH = 200
"""Characters of an example."""

WRAPPED = '<div style="max-width: 26rem; overflow-wrap: anywhere">{}</div>'


class DeadLetterPage:
    """A page beside the list of records, and the buttons that lead to it."""

    actions_list = ("dead_letters",)

    def has_look_permission(self, request: HttpRequest) -> bool:
        return may_look(request)

    @action(description="Dead letters", url_path="dead-letters", permissions=["look"], icon="mail_off")
    def dead_letters(self, request: HttpRequest) -> HttpResponse:
        """GET: the groups. POST of `group`: asks whether to retry all of it; with `confirmed`, does it."""
        if request.method == "POST":
            return self._retry(request)
        context = admin.site.each_context(request) | {
            "title": "Dead letters",
            "content": _page(request, dead_letters()),
        }
        return TemplateResponse(request, "admin/base_site.html", context)

    def _retry(self, request: HttpRequest) -> HttpResponse:
        if not may_operate(request):
            raise PermissionDenied
        records = filtered(BacklogRecord.objects.order_by("-pk"), {"group": request.POST.get("group") or "none"})
        asked = self.ask_or_do(request, records, "Retry now", RETRY_MEANS, backlog.retry)  # type: ignore[attr-defined]
        return asked or redirect("admin:jobs_backlogrecord_dead_letters")


def _page(request: HttpRequest, found: DeadLetters) -> SafeString:
    rows = [_row(request, each) for each in found.groups[:SHOWN_GROUPS]]
    hidden = len(found.groups) - SHOWN_GROUPS
    about = [
        "Failed records, grouped by what they say: numbers, ids, instants, addresses and paths are left out. Nothing "
        "tries them again unless a person does.",
        f"The newest {found.read:,} were looked at; there are older ones." if found.more else "",
        f"{hidden:,} smaller groups are not shown." if hidden > 0 else "",
    ]
    return format_html(
        '<div class="flex flex-col gap-4"><p>{}</p>{}</div>',
        " ".join(filter(None, about)) if rows else "",
        table(COLUMNS, rows, empty="No record has failed for good."),
    )


def _row(request: HttpRequest, each: DeadLetter) -> tuple[object, ...]:
    listed = f"{reverse('admin:jobs_backlogrecord_changelist')}?group={each.group}"
    example = link("jobs_backlogrecord_change", each.example_id, f"#{each.example_id}")
    return (
        format_html('<a href="{}" class="text-link">{}</a>', listed, f"{each.count:,}"),
        format_html(WRAPPED, each.says or "nothing"),
        ", ".join(sorted(each.kinds)),
        format_html('<span class="whitespace-nowrap">{}<br>{}</span>', moment(each.first_at), moment(each.last_at)),
        format_html(WRAPPED, format_html("{} {}", example, shortened(each.example, SHOWN_LENGTH))),
        posting(request, button("Retry all now", submit=1), group=each.group) if may_operate(request) else "",
    )
