"""Triggers: what each firing of a schedule emitted, and how far its batch is."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from api import history
from api.auth import Staff, operating
from api.models import Scope
from api.resources import Resource
from api.schedule_schemas import CancelledBatch, TriggerAnswer, TriggerDetail, TriggerFilters
from operations.web.permissions import may_look
from schedules import batches, verbs
from schedules.facts import IN_STATE, state_of
from schedules.models import Trigger


class Triggers(Resource[Trigger]):
    """Triggers, which emitters write; the latest first."""

    model, name, plural, tag = Trigger, "trigger", "triggers", "schedules"
    answer, detail, filters = TriggerAnswer, TriggerDetail, TriggerFilters
    orderings, usual_ordering = ("id", "trigger_at"), "-trigger_at"

    def permits(self, verb: str) -> Staff:
        """Who may look at schedules or records may look at triggers."""
        names = [f"schedules.{each}_{model}" for each in ("view", "change") for model in ("trigger", "schedule")]
        return Staff(Scope.READ, may_look, *names)

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        """By schedule, state and launch time."""
        rows = rows.filter(IN_STATE[asked.pop("state")]) if "state" in asked else rows
        rows = rows.filter(trigger_at__gte=asked.pop("since")) if "since" in asked else rows
        rows = rows.filter(trigger_at__lt=asked.pop("before")) if "before" in asked else rows
        return rows.filter(**asked)

    def facts(self, rows: Sequence[Trigger]) -> list[dict[str, Any]]:
        """With their states."""
        return [self.own_facts(row) | {"state": state_of(row)} for row in rows]

    def detailed(self, row: Trigger) -> dict[str, Any]:
        """How far its batch is. It reads every record of it."""
        return {"progress": asdict(batches.progress([row])[row.pk])}


resource = Triggers()
router = resource.router()


@resource.verb(router, "cancel", operating(), "Take a batch off the backlog", answer=CancelledBatch)
def cancel(request: HttpRequest, trigger_id: int) -> dict[str, int]:
    """What runs is told to stop. A trigger that waits behind an earlier batch emits nothing."""
    trigger = resource.get(trigger_id)
    cancelled = verbs.cancel_batch(trigger)
    history.noted(request, trigger, "Cancelled")
    return {"cancelled": cancelled}
