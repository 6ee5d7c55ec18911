"""Retry and cancel in the admin: first a question, then the verb, in batches, and a line in the history. The page of
dead letters groups failed records by their error, with the number of each, and retries a whole group.
"""

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action

from declarations.surfaces.admin.base import anchor, link, moment, shortened
from declarations.surfaces.admin.confirmations import AsksFirst, asked, button, is_confirmed, posting, question
from declarations.surfaces.admin.tables import table
from declarations.surfaces.web import audit
from declarations.surfaces.web.permissions import may_look, may_operate
from jobs import backlog
from jobs.backlog.rows import BATCH
from jobs.models import BacklogRecord
from jobs.states import FINISHED, Status
from operations.backlog.dead_letters import DeadLetter, DeadLetters, dead_letters
from operations.backlog.selection import filtered, locked_batches
from operations.backlog.verbs import Verb, carried_out, counted, describe, describe_counts

SHOWN_TO_CONFIRM = 10

RETRY_MEANS = (
    "Waiting records are ready at once. Failed and cancelled ones start a fresh series, unless another record of the "
    "same subject is on the backlog. Running and succeeded ones are left alone."
)
CANCEL_MEANS = (
    "Waiting and ready records end at once. Running ones are asked to stop, and end as cancelled unless they succeed "
    "first. Their trigger does not emit them again."
)

LEFT_ALONE = (Status.READY, Status.RUNNING, Status.SUCCEEDED)
"""The statuses in which *Retry now* changes nothing."""


class RecordActions(AsksFirst[Verb]):
    """Retry and cancel, from the list and from a record's page: first a question, then the verb, in batches."""

    called = "record"
    actions = ("retry_now", "cancel")
    actions_detail = ("retry_this", "cancel_this")

    def idle_verbs(self, row: BacklogRecord) -> set[str]:
        idle = {"cancel_this"} if row.status in FINISHED else set()
        return idle | {"retry_this"} if row.status in LEFT_ALONE else idle

    retry_now, retry_this = asked("retry_now", "Retry now", RETRY_MEANS, backlog.retry, "replay")
    cancel, cancel_this = asked("cancel", "Cancel", CANCEL_MEANS, backlog.cancel, "cancel")

    def ask_or_do(
        self, request: HttpRequest, rows: QuerySet[BacklogRecord], name: str, means: str, verb: Verb
    ) -> HttpResponse | None:
        """The question, or None once the answer was yes and it is done."""
        if not is_confirmed(request):
            counts = counted(rows)
            lines: list[object] = list(rows[:SHOWN_TO_CONFIRM])
            if more := counts.total() - len(lines):
                lines.append(f"and {more} more")
            asks = f"{name}: {describe_counts(counts)}?"
            return question(request, name, means, lines, asks=asks, danger=name == "Cancel")
        result = carried_out(verb, locked_batches(rows.select_related(None), BATCH))
        ids = [record_id for found in result.values() for record_id in found]
        words = describe(result) or "there was nothing"
        audit.note(name, words, ids[0] if len(ids) == 1 else None)
        changed = any(result.get(part) for part in ("ready", "cancelled", "stopping"))
        level = messages.SUCCESS if changed else messages.WARNING
        self.message_user(request, f"{name}: {words}.", level)  # type: ignore[attr-defined]
        return None


COLUMNS = ("records", "error", "kinds", "first and last (UTC)", "example", "")

SHOWN_GROUPS = 100

SHOWN_LENGTH = 200
"""Characters of an example."""

WRAPPED = '<div style="max-width: 26rem; overflow-wrap: anywhere">{}</div>'


class DeadLetterPage:
    """A page next to the list of records, and the buttons that lead to it."""

    actions_list = ("dead_letters",)

    def has_look_permission(self, request: HttpRequest) -> bool:
        return may_look(request)

    @action(description="Dead letters", url_path="dead-letters", permissions=["look"], icon="mail_off")
    def dead_letters(self, request: HttpRequest) -> HttpResponse:
        """GET: the groups. POST of `group`: asks whether to retry the whole group; with `confirmed`, retries it."""
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
        page = self.ask_or_do(request, records, "Retry now", RETRY_MEANS, backlog.retry)  # type: ignore[attr-defined]
        return page or redirect("admin:jobs_backlogrecord_dead_letters")


def _page(request: HttpRequest, found: DeadLetters) -> SafeString:
    rows = [_row(request, each) for each in found.groups[:SHOWN_GROUPS]]
    hidden = len(found.groups) - SHOWN_GROUPS
    about = [
        "Failed records, grouped by error, without numbers, ids, instants, addresses and paths. They are tried "
        "again only by a user.",
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
        anchor(listed, f"{each.count:,}"),
        format_html(WRAPPED, each.says or "nothing"),
        ", ".join(sorted(each.kinds)),
        format_html('<span class="whitespace-nowrap">{}<br>{}</span>', moment(each.first_at), moment(each.last_at)),
        format_html(WRAPPED, format_html("{} {}", example, shortened(each.example, SHOWN_LENGTH))),
        posting(request, button("Retry all now", submit=1), group=each.group) if may_operate(request) else "",
    )
