"""Retiring sources from their list and from the page of one, after a question."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.dataclasses import UnfoldAction

from jobs.formatting import several
from operations.admin.asking import AsksFirst, asked, is_confirmed, question
from sources import retiring
from sources.kinds import RULES
from sources.models import Backup, Source

RETIRE_MEANS = (
    "It leaves all counts, plans and checks, and what runs of it is stopped. Its backups stay for as long as its "
    "policies would have kept them had the backups gone on: they can be restored until then. It can be undone."
)
UNRETIRE = "Take into use again"
UNRETIRE_MEANS = "It is planned, counted and checked again, and backed up at once if it is due."

Verb = Callable[..., int]


class RetiresSources(AsksFirst[Verb]):
    """Actions and buttons of the admin of sources."""

    called = "source"
    actions: tuple[str, ...] = ("retire", "unretire")
    actions_detail: tuple[str, ...] = ("retire_this", "unretire_this")

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[UnfoldAction]:
        """Without reading the whole row again: one of both buttons, and those of agents where there may be one."""
        offered: list[UnfoldAction] = super(AsksFirst, self).get_actions_detail(request, object_id)  # type: ignore[misc]
        rows = Source.objects.filter(pk=int(object_id)) if str(object_id).isdecimal() else Source.objects.none()
        retired_at, kind = rows.values_list("retired_at", "kind").first() or (None, "")
        idle = {"retire_this" if retired_at else "unretire_this"}
        if kind in RULES and not RULES[kind].is_a_machine:
            idle |= {"enrol", "revoke_tokens"}
        return [each for each in offered if each.method.__name__ not in idle]

    retire, retire_this = asked("retire", "Retire", RETIRE_MEANS, retiring.retire, "archive", "change")
    unretire, unretire_this = asked("unretire", UNRETIRE, UNRETIRE_MEANS, retiring.unretire, "unarchive", "change")

    def ask_or_do(
        self, request: HttpRequest, rows: QuerySet[Source], name: str, means: str, verb: Verb
    ) -> HttpResponse | None:
        if not is_confirmed(request):
            kept = Backup.objects.filter(assignment__source__in=rows.values("pk")).count()
            lines = [*map(str, rows[:20]), f"with {several(kept, 'backup')} in all"]
            return question(request, name, means, lines)
        changed = verb(rows, by=str(request.user))
        text = f"{name}: {several(changed, 'source')}."
        self.message_user(request, text, messages.SUCCESS if changed else messages.WARNING)  # type: ignore[attr-defined]
        return None
