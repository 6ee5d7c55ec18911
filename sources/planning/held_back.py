"""Assignments whose last backup looked wrong: none of their points is removed until an operator has accepted it."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from jobs import decisions
from jobs.clock import database_clock
from sources.models import Assignment
from sources.planning import KIND, subject_of


@transaction.atomic
def accept(assignment_ids: Sequence[int], *, now: datetime | None = None, by: str = "a user") -> int:
    """Accept backups that an operator has examined and found to be right: retention resumes. Returns how many were held
    back.
    """
    instant = now or database_clock()
    held = Assignment.objects.filter(pk__in=assignment_ids, held_back_since__isnull=False)
    found = list(held.select_for_update(no_key=True, of=["self"]).select_related("source").order_by("pk"))
    Assignment.objects.filter(pk__in=[each.pk for each in found]).update(held_back_since=None, held_back_why="")
    lines = (
        decisions.DecisionLine(
            "accepted", f"{each.source}: {by} has looked: {each.held_back_why}", KIND, subject_of(each.pk)
        )
        for each in found
    )
    decisions.log_all(lines, instant)
    return len(found)
