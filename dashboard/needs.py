"""Sources and findings that need an operator, the worst first, each with its reason and a button."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from django.db.models import Max
from django.http import HttpRequest
from django.urls import reverse

from alerting import raising, sending
from declarations.surfaces.web.permissions import may_look, may_operate
from external.formatting import moment, several
from fleet import status
from fleet.admin.protection import mends
from fleet.status import common_errors
from jobs.models import BacklogRecord, Breaker, PausedQueue
from jobs.states import Status
from operations.backlog.attention import attention, findings
from operations.backlog.summary import BacklogSummary, QueueSummary, WorkerSummary, open_breakers
from sources import planning
from sources.domain.status import COLOURS, NEEDS_OPERATOR, NOT_COUNTED, ProtectionStatus
from sources.models import Assignment, Source

UP_TO_DATE = "up to date"
"""The name of *protected* next to other statuses that are protected, too: running, waiting, due, absent."""
SHOWN = 6
LOOKED_AT = 60
"""Sources in need that are compared: those that fail alike are shown once."""


@dataclass(frozen=True)
class Notice:
    """A sentence, and its link (`url`), or its button's action (`action`, on `about`)."""

    text: str
    label: str = ""
    url: str = ""
    action: str = ""
    about: str = ""


def of_sources(request: HttpRequest, now: datetime) -> dict[str, Any]:
    """The sentence, the numbers by status, and the first sources that need the user, each with its button's action
    (`home.act`; empty if this user may take none), and label and address of buttons that mend it.
    """
    found = status.summary(now, LOOKED_AT)
    worst, others = _once(status.rows_of(found.worst, Source.objects.all()))
    reasons = status.reasons_of(worst, now) if worst else {}
    may_act, copied = request.user.has_perm("sources.change_source"), _copied_now(worst)
    needs = [
        {
            "id": each.pk, "name": each.name, "status": each.status, "colour": COLOURS[ProtectionStatus(each.status)],
            "reason": reasons.get(each.pk, ""), "alike": others.get(each.pk),
            "action": "back_up_now"
            if may_act and each.status != ProtectionStatus.UNPROTECTED and each.pk not in copied else "",
            "mends": list(mends(each.pk)) if each.status == ProtectionStatus.DOUBTFUL and may_operate(request) else [],
        }
        for each in worst
    ]  # fmt: skip
    proved = Assignment.objects.filter(proved_at__isnull=False).order_by("-proved_at").values_list("pk", flat=True)
    last = Assignment.objects.select_related("source").filter(pk__in=list(proved[:1]))  # joined first, all are sorted
    return {
        "summary": found,
        "groups": list(_groups(found)),
        "needs": needs,
        "more_needs": found.in_need - len(needs) - sum(more for more, _ in others.values()),
        "proved": last.first(),
        "unproved": Assignment.objects.exclude(drill_error="").count(),
    }


def _copied_now(sources: Sequence[Any]) -> set[int]:
    """The ids of the sources that are being backed up, so that no backup can be requested."""
    keys = {each.exclusive_key: each.pk for each in sources}
    running = BacklogRecord.objects.running().filter(kind=planning.KIND, queue=planning.BACKUPS, exclusive_key__in=keys)
    return {keys[key] for key in running.values_list("exclusive_key", flat=True)} if keys else set()


def _groups(found: status.FleetSummary) -> Iterator[tuple[str, int, list[tuple[ProtectionStatus, str, str, int]]]]:
    """The numbers of the sentence, each with those that add up to it: status, its name here, colour, number."""
    protected = frozenset(ProtectionStatus) - NEEDS_OPERATOR - NOT_COUNTED
    for words, members in (("protected", protected), ("need you", NEEDS_OPERATOR), ("not counted", NOT_COUNTED)):
        chips = [
            (each, count) for each in ProtectionStatus if each in members and (count := found.by_status.get(each, 0))
        ]
        if chips:
            named = [
                (each, UP_TO_DATE if each == ProtectionStatus.PROTECTED else each, COLOURS[each], n)
                for each, n in chips
            ]
            yield words, sum(count for _, count in chips), named


def _once(in_need: list[Any]) -> tuple[list[Any], dict[int, tuple[int, str]]]:
    """The first SHOWN, only the first of those that fail alike; and, by its id, the number of the others and their
    page."""
    errors = common_errors.lines_of([each for each in in_need if each.status == ProtectionStatus.FAILING])
    groups: dict[str | int, list[Any]] = {}
    for each in in_need:
        groups.setdefault(errors.get(each.pk) or each.pk, []).append(each)
    shown = dict(islice(groups.items(), SHOWN))
    page = reverse("admin:sources_source_changelist")
    several_by = {str(error): first for error, (first, *others) in shown.items() if others}
    numbers = common_errors.numbers(several_by) if several_by else {}
    return [first for first, *_ in shown.values()], {
        first.pk: (numbers[error] - 1, f"{page}?{urlencode({'error': error})}")
        for error, first in several_by.items()
        if error in numbers
    }


def notices(request: HttpRequest, workers: Sequence[WorkerSummary] | None, now: datetime) -> list[Notice]:
    """Other findings that the user may look at. `workers`: None if he may not look at those."""
    found: list[Notice] = []
    if workers is not None:
        open_page = reverse("admin:jobs_worker_changelist")
        found += [Notice(text, "Open", open_page) for text in attention(BacklogSummary(now, [], list(workers), []))]
    if may_look(request):
        found += _of_backlog(request, now)
    if request.user.has_perm("alerting.view_alert"):
        found += [Notice(text, "Open", reverse("admin:alerting_alert_changelist")) for text in raising.in_need(now)]
    if request.user.has_perm("alerting.view_alertmessage"):
        found += _undelivered()
    return found


def _undelivered() -> Iterator[Notice]:
    if count := sending.undelivered().count():
        text = f"{several(count, 'message')} about alerts could not be delivered."
        yield Notice(text, "Open", reverse("admin:alerting_alertmessage_changelist"))


def _of_backlog(request: HttpRequest, now: datetime) -> Iterator[Notice]:
    """Paused queues, open breakers and dead letters: the findings of all summaries, each with its page or button
    in place of a command."""
    paused = [
        QueueSummary(queue.name, True, queue.paused_at, queue.reason, queue.paused_until)
        for queue in PausedQueue.objects.order_by("name")
    ]
    failed = BacklogRecord.objects.filter(status=Status.FAILED)
    summary = BacklogSummary(now, paused, [], [], open_breakers(now, SHOWN), dead_letters=failed.count())
    pages = dict(Breaker.objects.filter(key__in=[each.key for each in summary.breakers]).values_list("key", "pk"))
    action = "resume_queue" if may_operate(request) else ""
    for each in findings(summary):
        _, _, about = each.subject.partition(":")
        match each.kind:
            case "paused_queues":
                page = reverse("admin:jobs_pausedqueue_changelist")
                yield Notice(f"{each.text}.", "Resume" if action else "Open", page, action, about)
            case "open_breakers" if about in pages:
                yield Notice(f"{each.text}.", "Open", reverse("admin:jobs_breaker_change", args=[pages[about]]))
            case "dead_letters":
                latest = failed.aggregate(at=Max("finished_at"))["at"]
                text = f"{each.text}, the last one at {moment(latest)} UTC." if latest else f"{each.text}."
                yield Notice(text, "Open the dead letters", reverse("admin:jobs_backlogrecord_dead_letters"))
