"""Retry and cancel in the admin: first a question, then the verb, in batches, and a line in the history."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import action

from jobs import backlog
from jobs.backlog.rows import BATCH
from jobs.backlog.selection import locked_batches
from jobs.models import BacklogRecord
from jobs.states import Status
from jobs.web import audit
from jobs.web.permissions import may_operate

SHOWN_TO_CONFIRM = 10

KEPT_FIELDS = ("action", "select_across", "group")
"""Of the request that asks, sent again with the answer: which records it is about."""

BUTTON = "unfold/components/button.html"

RETRY_MEANS = (
    "What waits is ready at once. What failed or was cancelled starts a fresh series, unless another record of its "
    "subject is on the backlog. What runs or succeeded is left alone."
)
CANCEL_MEANS = (
    "What waits or is ready ends at once. What runs is told to stop, and ends as cancelled unless it succeeds first. "
    "Its trigger does not emit it again."
)


class RecordActions:
    """Retry and cancel, from the list and from a record's page: first a question, then the verb, in batches."""

    actions = ("retry_now", "cancel")
    actions_detail = ("retry_this_now", "cancel_this")

    def has_operate_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody edits a record, so the permission to change one is that of retrying and cancelling it."""
        return may_operate(request)

    @admin.action(description="Retry now", permissions=["operate"])
    def retry_now(self, request: HttpRequest, records: QuerySet[BacklogRecord]) -> HttpResponse | None:
        return self.ask_or_do(request, records, "Retry now", RETRY_MEANS, backlog.retry)

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel(self, request: HttpRequest, records: QuerySet[BacklogRecord]) -> HttpResponse | None:
        return self.ask_or_do(request, records, "Cancel", CANCEL_MEANS, backlog.cancel)

    @action(description="Retry now", url_path="retry", permissions=["operate"], icon="replay")
    def retry_this_now(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_do_for_one(request, object_id, "Retry now", RETRY_MEANS, backlog.retry)

    @action(description="Cancel", url_path="cancel", permissions=["operate"], icon="cancel")
    def cancel_this(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_do_for_one(request, object_id, "Cancel", CANCEL_MEANS, backlog.cancel)

    def _ask_or_do_for_one(
        self, request: HttpRequest, object_id: str, name: str, means: str, verb: Callable[[Iterable[int]], Any]
    ) -> HttpResponse:
        ids = [int(object_id)] if object_id.isdecimal() and len(object_id) < 19 else []
        records = BacklogRecord.objects.filter(pk__in=ids)
        if not records:
            self.message_user(request, f"There is no record {object_id}.", messages.WARNING)  # type: ignore[attr-defined]
            return redirect("admin:jobs_backlogrecord_changelist")
        done = redirect("admin:jobs_backlogrecord_change", object_id)
        return self.ask_or_do(request, records, name, means, verb) or done

    def ask_or_do(
        self,
        request: HttpRequest,
        records: QuerySet[BacklogRecord],
        name: str,
        means: str,
        verb: Callable[[Iterable[int]], Any],
    ) -> HttpResponse | None:
        """The question, or None once the answer was yes and it is done."""
        if request.method != "POST" or request.POST.get("confirmed") != "yes":
            return self._question(request, records, name, means)
        found: Counter[str] = Counter()
        one: int | None = None
        for batch in locked_batches(records.select_related(None), BATCH):
            found.update({part: len(ids) for part, ids in asdict(verb(batch)).items()})
            one = batch[0] if len(batch) == 1 else one
        told = ", ".join(f"{count:,} {RESULTS.get(part, part)}" for part, count in found.items() if count)
        told = told or "there was nothing"
        audit.note(request, name, told, one if found.total() == 1 else None)
        changed = any(found[part] for part in ("ready", "cancelled", "stopping"))
        level = messages.SUCCESS if changed else messages.WARNING
        self.message_user(request, f"{name}: {told}.", level)  # type: ignore[attr-defined]
        return None

    def _question(
        self, request: HttpRequest, records: QuerySet[BacklogRecord], name: str, means: str
    ) -> TemplateResponse:
        counts = Counter(records.order_by().values_list("status", flat=True).iterator(10_000))
        told = ", ".join(f"{count:,} {Status(status).label}" for status, count in sorted(counts.items()))
        shown = list(records[:SHOWN_TO_CONFIRM])
        more = counts.total() - len(shown)
        kept = [(ACTION_CHECKBOX_NAME, pk) for pk in request.POST.getlist(ACTION_CHECKBOX_NAME)]
        kept += [(field, request.POST[field]) for field in KEPT_FIELDS if field in request.POST]
        content = format_html(
            '<form method="post" class="flex flex-col gap-4">'
            '<input type="hidden" name="csrfmiddlewaretoken" value="{}">'
            '<input type="hidden" name="confirmed" value="yes">{}<p class="font-semibold">{}</p><p>{}</p>'
            '<ul class="list-disc pl-6">{}{}</ul><div class="flex gap-3">{}{}</div></form>',
            get_token(request),
            format_html_join("", '<input type="hidden" name="{}" value="{}">', kept),
            f"{name}: {counts.total():,} record{'s' if counts.total() != 1 else ''} ({told})?",
            means,
            format_html_join("", "<li>{}</li>", ((record,) for record in shown)),
            format_html("<li>and {} more</li>", more) if more else "",
            button("No, take me back", href=request.get_full_path() if request.method == "POST" else "../change/"),
            button(f"Yes, {name[0].lower()}{name[1:]}", submit=1, variant="danger" if name == "Cancel" else "primary"),
        )
        context = admin.site.each_context(request) | {"title": f"{name}?", "content": content}
        return TemplateResponse(request, "admin/base_site.html", context)


RESULTS = {
    "stopping": "told to stop", "finished": "had ended before", "missing": "gone",
    "superseded": "left to another record of the same subject",
}  # fmt: skip


def button(words: str, **attributes: Any) -> SafeString:
    """A button in the admin's style: `href`, or `submit=1`."""
    return render_to_string(BUTTON, {"children": words, "variant": "default", **attributes})
