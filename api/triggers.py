"""Triggers: what each firing of a schedule emitted, and how far its batch is."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Schema

from api.auth import Staff, operating
from api.fields import Instant, RowId
from api.models import Scope
from api.resources import Resource
from operations.web.permissions import may_look
from schedules import batches, verbs
from schedules.facts import IN_STATE, state_of
from schedules.models import Trigger

TriggerState = Literal["queued", "under way", "finished", "skipped"]


class TriggerAnswer(Schema):
    """One firing of a schedule. `events`: how many records it emitted. `asked_by` empty: the clock."""

    id: int
    schedule: int
    trigger_at: datetime
    state: TriggerState
    events: int
    seen_at: datetime
    emitted_at: datetime | None
    closes_at: datetime | None
    finished_at: datetime | None
    skipped_for: str
    asked_by: str


class BatchProgress(Schema):
    """How many records of a batch are where."""

    waiting: int
    ready: int
    running: int
    succeeded: int
    failed: int
    cancelled: int


class TriggerDetail(TriggerAnswer):
    """With how far its batch is."""

    progress: BatchProgress


class CancelledBatch(Schema):
    """How many records were taken off the backlog, or told to stop."""

    cancelled: int


class Triggers(Resource[Trigger]):
    """Triggers, which emitters write; the latest first. `since`, `before`: of their launch times."""

    model, tag, answer, detail = Trigger, "schedules", TriggerAnswer, TriggerDetail
    filters = {"schedule": RowId, "state": TriggerState, "since": Instant, "before": Instant}
    lookups = {"state": IN_STATE.__getitem__, "since": "trigger_at__gte", "before": "trigger_at__lt"}
    orderings, usual_ordering = ("id", "trigger_at"), "-trigger_at"

    def permits(self, verb: str) -> Staff:
        """Who may look at schedules or records may look at triggers."""
        names = [f"schedules.{each}_{model}" for each in ("view", "change") for model in ("trigger", "schedule")]
        return Staff(Scope.READ, may_look, *names)

    def facts(self, rows: Sequence[Trigger]) -> list[dict[str, Any]]:
        """With their states."""
        return [self.own_facts(row) | {"state": state_of(row)} for row in rows]

    def detailed(self, row: Trigger) -> dict[str, Any]:
        """How far its batch is. It reads every record of it."""
        return {"progress": asdict(batches.progress([row])[row.pk])}


resource = Triggers()
router = resource.router


@resource.verb("cancel", operating(), "Take a batch off the backlog", answer=CancelledBatch, noted="Cancelled")
def cancel(request: HttpRequest, trigger: Trigger) -> dict[str, int]:
    """What runs is told to stop. A trigger that waits behind an earlier batch emits nothing."""
    return {"cancelled": verbs.cancel_batch(trigger)}
