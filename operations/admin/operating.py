"""Retry and cancel in the admin: first a question, then the verb, in batches, and a line in the history."""

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from jobs import backlog
from jobs.backlog.rows import BATCH
from jobs.models import BacklogRecord
from jobs.states import FINISHED, Status
from operations.admin.asking import AsksFirst, asked, is_confirmed, question
from operations.backlog.selection import locked_batches
from operations.backlog.verbs import Verb, carried_out, counted, describe, describe_counts
from operations.web import audit

SHOWN_TO_CONFIRM = 10

RETRY_MEANS = (
    "What waits is ready at once. What failed or was cancelled starts a fresh series, unless another record of its "
    "subject is on the backlog. What runs or succeeded is left alone."
)
CANCEL_MEANS = (
    "What waits or is ready ends at once. What runs is told to stop, and ends as cancelled unless it succeeds first. "
    "Its trigger does not emit it again."
)

LEFT_ALONE = (Status.READY, Status.RUNNING, Status.SUCCEEDED)
"""What *Retry now* does nothing to."""


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
        audit.note(request, name, words, ids[0] if len(ids) == 1 else None)
        changed = any(result.get(part) for part in ("ready", "cancelled", "stopping"))
        level = messages.SUCCESS if changed else messages.WARNING
        self.message_user(request, f"{name}: {words}.", level)  # type: ignore[attr-defined]
        return None
