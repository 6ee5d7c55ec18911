"""The part of a source's page above its settings: its status, the reasons, the next attempt, the buttons, and the
history.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils import timezone
from unfold.dataclasses import UnfoldAction
from unfold.decorators import action

from backups.connection_check import try_source
from declarations.surfaces.admin.base import link, moment
from declarations.surfaces.admin.confirmations import AsksFirst, asked, is_confirmed, question
from declarations.surfaces.admin.row_history import ModelAdmin
from declarations.surfaces.admin.tables import table
from declarations.surfaces.web.permissions import may_operate
from engines.kinds import RULES
from external.durations import span
from external.formatting import several
from fleet import source_edits
from fleet.admin import reasons_page
from fleet.admin.protection import mends, of_a_source, table_of_copies
from fleet.admin.source_form import TRIED
from fleet.explaining.known import KnownSource
from fleet.status import reasons_of
from jobs import breakers
from jobs.states import UNFINISHED, Status
from operations.hold import sentence
from operations.limits import TooMany
from sources import planning
from sources.domain import days
from sources.domain.days import Day
from sources.domain.status import COLOURS
from sources.models import Assignment, Backup, Copy, Policy, Source
from sources.planning import retirement
from sources.protection import ledger

SHOWN_DAYS = 30
SHOWN_BACKUPS = 5
DRAWN_BACKUPS = 30
MOST_POLICIES = 200
WIDTH, HEIGHT, MARGIN = 320, 56, 4
"""The size of a small curve, as SVG within the page: two dozen numbers need no separate picture."""

OF_THE_LIST = (
    "back_up_now", "pause", "pause_until", "resume",
)  # fmt: skip
"""Actions of the list that this page applies to its source."""
SHOWN_ABOVE = {"act_on_this", "restore", "retire_this", "unretire_this"}
"""Buttons of the page that are shown next to the status, and not in its head."""


RETIRE_MEANS = (
    "It leaves all counts, plans and checks, and its running work is stopped. Its backups stay for as long as its "
    "policies would have kept them if the backups had continued: they can be restored until then. It can be undone."
)
UNRETIRE = "Put back into use"
UNRETIRE_MEANS = "It is planned, counted and checked again, and backed up at once if it is due."

Verb = Callable[..., int]


class SourcePage(AsksFirst[Verb], ModelAdmin):
    """The part of the admin of sources about the section above a source's settings, and its buttons."""

    called = "source"
    actions: Any = ("retire", "unretire")
    actions_detail: Any = ("act_on_this", "retire_this", "unretire_this")

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[UnfoldAction]:
        """The buttons, without reading the whole row again: those of agents only if the source may have one."""
        offered: list[UnfoldAction] = super(AsksFirst, self).get_actions_detail(request, object_id)
        rows = Source.objects.filter(pk=int(object_id)) if str(object_id).isdecimal() else Source.objects.none()
        rule = RULES.get(rows.values_list("kind", flat=True).first() or "")
        idle = SHOWN_ABOVE if rule is None or rule.is_a_machine else SHOWN_ABOVE | {"enrol", "revoke_tokens"}
        return [each for each in offered if each.method.__name__ not in idle]

    retire, retire_this = asked("retire", "Retire", RETIRE_MEANS, retirement.retire, "archive", "change")
    unretire, unretire_this = asked("unretire", UNRETIRE, UNRETIRE_MEANS, retirement.unretire, "unarchive", "change")

    def ask_or_do(
        self, request: HttpRequest, rows: QuerySet[Source], name: str, means: str, verb: Verb
    ) -> HttpResponse | None:
        if not is_confirmed(request):
            kept = Backup.objects.filter(assignment__source__in=rows.values("pk")).count()
            lines = [*map(str, rows[:20]), f"with {several(kept, 'backup')} in all"]
            return question(request, name, means, lines)
        changed = verb(rows, by=str(request.user))
        text = f"{name}: {several(changed, 'source')}."
        self.message_user(request, text, messages.SUCCESS if changed else messages.WARNING)
        return None

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if source := context.get("original"):
            context |= facts_of(source, timezone.now())
            context["may_change"] = self.has_change_permission(request, source)
            context["mends"] = mends(source.pk) if may_operate(request) else ()
            context["may_restore"] = self.has_restore_permission(request, source)
        return super().render_change_form(request, context, *args, **kwargs)

    @action(description="Act", url_path="act", permissions=["change"])
    @of_a_source
    def act_on_this(self, request: HttpRequest, source: Source) -> HttpResponse:
        """POST of `do`: an action of the list, `try` or `put_under`. A GET leads to the page with the buttons."""
        do = request.POST.get("do", "") if request.method == "POST" else ""
        if do in OF_THE_LIST:
            if response := getattr(self, do)(request, Source.objects.filter(pk=source.pk)):
                return response  # type: ignore[no-any-return]
        elif do == "try":
            self._try(request, source)
        elif do == "put_under":
            self._put_under(request, source, request.POST.get("policy", ""))
        return redirect("admin:sources_source_change", source.pk)

    def _try(self, request: HttpRequest, source: Source) -> None:
        try:
            TRIED.spend(str(request.user.pk))
        except TooMany as error:
            self.message_user(request, str(error), messages.WARNING)
            return
        tried = try_source(source)
        text = f"{source} can be backed up from here: {tried.text}" if tried.works else f"{source}: {tried.text}"
        self.message_user(request, text, messages.SUCCESS if tried.works else messages.ERROR)

    def _put_under(self, request: HttpRequest, source: Source, policy_id: str) -> None:
        policy = Policy.objects.filter(pk=int(policy_id)).first() if policy_id.isdecimal() else None
        if policy is None:
            self.message_user(request, "Choose a policy first.", messages.WARNING)
            return
        assignment, _ = Assignment.objects.get_or_create(source=source, policy=policy)
        source_edits.emit_after_commit([assignment.pk])
        self.log_change(request, source, f"Put it under {policy}.")
        self.message_user(request, f"{source} is under {policy} now, and due at once.", messages.SUCCESS)


def facts_of(source: Source, now: datetime) -> dict[str, Any]:
    """The context of the template for the section above the settings."""
    known = KnownSource(source, now)
    assignments = known.assignments
    related = Backup.objects.filter(assignment__in=assignments).select_related("assignment__policy__schedule")
    backups = list(related[:DRAWN_BACKUPS])
    policies = (
        []
        if assignments
        else list(Policy.objects.select_related("schedule").order_by("schedule__name")[: MOST_POLICIES + 1])
    )
    status: Any = source.status  # type: ignore[attr-defined]
    return {
        "hold_sentence": sentence(on_hold) if (on_hold := known.around.on_hold) else "",
        "status": status, "colour": COLOURS[status], "reason": reasons_of([source], now, known.around)[source.pk],
        "next_attempt": _next_attempt(known),
        **_days(known),
        **reasons_page.of_page(known),
        "curves": [
            _curve("size", [each.size for each in backups], filesizeformat),
            _curve("duration", [max(0, (each.ended_at - each.started_at).total_seconds()) for each in backups], span),
        ] if len(backups) > 1 else [],
        "last_backups": _table(backups[:SHOWN_BACKUPS]),
        "copies": table_of_copies(Copy.objects.filter(assignment__in=assignments)),
        "assigned": bool(assignments),
        "policies": policies[:MOST_POLICIES],
        "all_policies": Policy.objects.count() if len(policies) > MOST_POLICIES else 0,
        "retire_url": reverse(
            f"admin:sources_source_{'unretire' if source.retired_at else 'retire'}_this", args=[source.pk]
        ),
    }  # fmt: skip


def _next_attempt(known: KnownSource) -> tuple[str, datetime | None]:
    """The next attempt as text, and its instant if one is known."""
    assignments, now = known.assignments, known.now
    if any(each.source.paused_at or each.source.retired_at for each in assignments):
        return "none is planned", None
    if known.around.on_hold:
        return "none while everything is on hold", None
    records = [record for record in known.records.values() if record.status in UNFINISHED]
    for record in records:
        if record.status == Status.RUNNING and record.started_at:
            queue = "its backup" if record.queue == planning.BACKUPS else "the question whether it is there"
            return f"now: {queue} has run for {span((now - record.started_at).total_seconds())}", None
    if any(record.status == Status.READY for record in records):
        return "as soon as a worker has room", None
    dates = [breakers.next_try_at(record) for record in records] or [
        date for each in assignments if each.policy.schedule.enabled and (date := _next_period(each, now))
    ]
    return ("at", min(dates)) if dates else ("none is planned", None)


def _next_period(assignment: Assignment, now: datetime) -> datetime | None:
    """The instant at which it is due again; an assignment that gave up in this period is tried in the next one. None if
    its policy cannot be read.
    """
    if assignment.next_backup_at and assignment.next_backup_at > now:
        return assignment.next_backup_at
    try:
        return assignment.policy.schedule.period.next_after(now)
    except ValueError:
        return None


def _days(known: KnownSource) -> dict[str, Any]:
    """`days`: for each its date, the class and sign of its outcome, and the outcome as text; and the number of days
    with each outcome. Empty without a policy.
    """
    assignments, now = known.assignments, known.now
    if not assignments:
        return {}
    dates = ledger.span_of_days(ledger.latest_date(assignments, now))[-SHOWN_DAYS:]
    judged = ledger.days_of(assignments, dates, now, known.idle)
    worst = [days.worst(of_day) for of_day in zip(*judged.values(), strict=True)]
    rows = [(f"{day}", *days.SIGNS.get(found, ("", "")), found.value) for day, found in zip(dates, worst, strict=True)]
    numbers = Counter(worst)
    counted = ", ".join(f"{numbers[day]} {day}" for day in days.SIGNS if numbers[day])
    return {"days": rows, "counted": counted or Day.NONE.value, "last_day": rows[-1][0]}


def _curve(name: str, newest_first: Sequence[float], shown: Any) -> dict[str, Any]:
    values = newest_first[::-1]
    least, most = shown(min(values)), shown(max(values))
    text = f"{name} of the last {len(values)} backups: {least} to {most}, last {shown(values[-1])}"
    return {"text": text, "points": points_of(values), "width": WIDTH, "height": HEIGHT}


def points_of(values: Sequence[float]) -> str:
    """The places of the values in WIDTH × HEIGHT, from left to right; zero is at the bottom, so that twice is twice."""
    step, scale = (WIDTH - 2 * MARGIN) / (len(values) - 1), (HEIGHT - 2 * MARGIN) / (max(values) or 1)
    points = ((MARGIN + number * step, HEIGHT - MARGIN - value * scale) for number, value in enumerate(values))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _table(backups: Sequence[Backup]) -> Any:
    rows = (
        (
            link("sources_backup_change", backup.pk, moment(backup.started_at)),
            backup.assignment.policy,
            span((backup.ended_at - backup.started_at).total_seconds()),
            filesizeformat(backup.size),
            backup.files,
            "with warnings" if backup.warnings else "good",
        )
        for backup in backups
    )
    return table(("started (UTC)", "policy", "took", "size", "files", "result"), rows, empty="none yet")
