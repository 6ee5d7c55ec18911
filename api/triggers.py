"""Triggers: the records that each firing of a schedule emitted, and the progress of its batch."""

from dataclasses import asdict
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Schema

from api.auth import operating
from api.fields import Instant, RowAnswer, RowId
from api.resources import Resource
from declarations.surfaces.web.permissions import may_look
from schedules import batches, verbs
from schedules.facts import IN_STATE, STATES, state_of
from schedules.models import Trigger

TriggerState = Literal["queued", "under way", "finished", "skipped"]


class TriggerAnswer(
    RowAnswer,
    of=Trigger,
    names="id schedule trigger_at events seen_at emitted_at closes_at finished_at skipped_for asked_by",
):
    """One firing of a schedule. `events`: how many records it emitted. `asked_by` is empty if the clock fired it."""

    state: TriggerState


class BatchProgress(RowAnswer, of=batches.BatchCounts, names=" ".join(STATES)):
    """The number of records of a batch in each state."""


class TriggerDetail(TriggerAnswer):
    """A trigger, with the progress of its batch."""

    progress: BatchProgress


class CancelledBatch(Schema):
    """The number of records that were taken off the backlog, or asked to stop."""

    cancelled: int


class Triggers(Resource[Trigger]):
    """Triggers, which emitters write; the latest first. `since`, `before`: of their launch times. Accounts that may see
    schedules or records may see triggers.
    """

    model, tag, answer, detail = Trigger, "schedules", TriggerAnswer, TriggerDetail
    filters = {"schedule": RowId, "state": TriggerState, "since": Instant, "before": Instant}
    lookups = {"state": IN_STATE.__getitem__, "since": "trigger_at__gte", "before": "trigger_at__lt"}
    computed, seen_by = {"state": state_of}, (may_look, "schedules.view_schedule", "schedules.change_schedule")
    orderings, usual_ordering = ("id", "trigger_at"), "-trigger_at"

    def detailed(self, row: Trigger) -> dict[str, Any]:
        """The progress of its batch. It reads every record of the batch."""
        return {"progress": asdict(batches.progress([row])[row.pk])}


resource = Triggers()
router = resource.router


@resource.verb("cancel", operating(), "Take a batch off the backlog", answer=CancelledBatch, noted="Cancelled")
def cancel(request: HttpRequest, trigger: Trigger) -> dict[str, int]:
    """Running records are asked to stop. A trigger that waits behind an earlier batch emits nothing."""
    return {"cancelled": verbs.cancel_batch(trigger)}
