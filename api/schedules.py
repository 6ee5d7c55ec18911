"""Schedules: edited, triggered, paused, and planned before and after they are saved. A policy's is edited with it."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema

from api import edits, history
from api.auth import Staff, operating, user_of, viewing
from api.declared_resources import DeclaredResource
from api.errors import ApiError, not_valid
from api.fields import Instant, Name, RowAnswer
from api.idempotency import once
from api.models import Scope
from api.pages import patiently
from api.pausing import PauseRequest
from api.record_schemas import ExplanationAnswer
from api.triggers import TriggerAnswer
from api.triggers import resource as triggers
from declarations.problems import lines_of
from jobs.clock import database_clock
from operations.trigger_reasons import explain_schedule
from schedules import declarations, verbs
from schedules.capacity import check
from schedules.capacity_report import Plan, plan_of
from schedules.editing import Schedules
from schedules.models import Schedule
from schedules.previews import ComingBatch, coming_batches

MOST_PREVIEWED = 100


class ScheduleAnswer(declarations.ScheduleDeclaration):
    """`provider` is empty if its batch is `event_count` events. Otherwise the named provider makes the batch, such as
    `assignments`.

    `next_trigger_at` is null if it is paused, or no emitter has seen it yet. It is not part of the ETag.
    """

    id: int
    next_trigger_at: datetime | None
    paused_until: datetime | None = Field(
        description="While it is not enabled: when it is enabled automatically; null if a user has to enable it"
    )
    paused_why: str


class PreviewQuery(Schema):
    """The number of triggers, and the instant after which; now by default."""

    count: int = Field(10, ge=1, le=MOST_PREVIEWED)
    start: Instant | None = Field(None, alias="from")


class PreviewedTrigger(RowAnswer, of=ComingBatch, names="trigger_at first_at last_at closes_at"):
    """`first_at` and `last_at`: when its first and its last event may start. `closes_at` null: no window."""

    trigger_at_local: str
    events: int


class PreviewAnswer(Schema):
    """The next triggers of a schedule, as if it were enabled."""

    triggers: list[PreviewedTrigger]


class ExplainScheduleQuery(Schema):
    """`at`: an instant in the past or the future."""

    at: Instant | None = None


class SchedulesOfTheApi(DeclaredResource[Schedule]):
    """Schedules. The emitter follows an edit at its next look, within a second.

    Rows are referred to by name; `provider` is empty for schedules whose batch is events.
    """

    service, tag, answer = Schedules, "schedules", ScheduleAnswer
    filters = {
        "name": Name, "kind": Name, "provider": declarations.Word, "enabled": bool, "throttle": Name, "endpoint": Name,
        "retry_policy": Name,
    }  # fmt: skip
    lookups = {name: f"{name}__name" for name in ("throttle", "endpoint", "retry_policy")}
    computed = {"next_trigger_at": lambda schedule: schedule.next_trigger_at if schedule.enabled else None}
    orderings = ("id", "name", "next_trigger_at")


resource = SchedulesOfTheApi()
router = resource.router


@resource.verb(
    "trigger", operating(), "Trigger a schedule now", answer={201: TriggerAnswer},
    has=["location", "etag", "idempotency", "conflict"],
)  # fmt: skip
def trigger(request: HttpRequest, schedule: Schedule) -> HttpResponse:
    """Put its batch on the backlog now, in addition to the triggers of its cron; `state` in the answer shows whether
    the batch was emitted.
    """

    def fire() -> HttpResponse:
        try:
            fired = verbs.trigger_now(schedule, str(request.user))
        except ValueError as error:
            raise ApiError(409, str(error), edits.DO_WHAT_IT_SAYS) from error
        history.noted(request, schedule, "Triggered")
        response = triggers.respond(fired.pk, 201)
        response["Location"] = f"/api{triggers.path}/{fired.pk}"
        return response

    return once(request, fire)


@resource.verb("pause", operating(), "Pause a schedule", has=["etag", "if-match", "conflict"])
def pause(request: HttpRequest, schedule: Schedule, query: Query[PauseRequest]) -> None:
    """It triggers nothing until it is resumed, by a user or automatically at `until`. Emitted records continue."""
    with transaction.atomic():
        _, locked = resource.locked(request, schedule.pk)
        verbs.pause(locked, **query.checked())


@resource.verb("resume", operating(), "Resume a schedule", has=["etag", "if-match", "conflict"])
def resume(request: HttpRequest, schedule: Schedule) -> None:
    """Let it trigger from now on. Triggers during its pause are not caught up."""
    with transaction.atomic():
        _, locked = resource.locked(request, schedule.pk)
        verbs.resume(locked)


@resource.verb(
    "preview", viewing("schedules.schedule"), "The next triggers of a schedule", answer=PreviewAnswer, method="get"
)
def preview(request: HttpRequest, schedule: Schedule, query: Query[PreviewQuery]) -> dict[str, Any]:
    """Its triggers from now on, or from the instant `from`."""
    try:
        batches = coming_batches(schedule, query.count, query.start)
    except (ValueError, OverflowError) as error:
        hint = "correct the schedule, or ask for another `from`"
        raise ApiError(422, f"no preview is possible: {error}", hint) from error
    zone = schedule.period.tzinfo
    return {
        "triggers": [
            asdict(each)
            | {"events": each.events or 0, "trigger_at_local": each.trigger_at.astimezone(zone).isoformat()}
            for each in batches
        ]
    }


@resource.verb(
    "explain", viewing("schedules.schedule"), "Why it did not fire, or when it fires next", answer=ExplanationAnswer,
    method="get",
)  # fmt: skip
def explain(request: HttpRequest, schedule: Schedule, query: Query[ExplainScheduleQuery]) -> dict[str, Any]:
    """Each reason why it did not fire at the instant `at`; without `at`, when it fires next, and what keeps it from
    firing now.
    """
    return explain_schedule(schedule, database_clock(), query.at).as_facts


@resource.verb("plan", viewing("schedules.schedule"), "The load of the next seven days", answer=Plan, method="get")
def plan(request: HttpRequest, schedule: Schedule) -> Plan:
    """And whether its batches complete in their windows at the pace of its throttle."""
    return _plan(schedule)


@router.post(
    "/schedules/plan", auth=Staff(Scope.READ, "schedules.add_schedule", "schedules.change_schedule"),
    response=Plan, operation_id="plan_new_schedule", summary="The load of a schedule that is not saved",
)  # fmt: skip
def plan_new(request: HttpRequest, body: declarations.ScheduleDeclaration) -> Plan:
    """The plan of a schedule that is not saved. Nothing is saved."""
    row, service = Schedule(), Schedules(user_of(request))
    service.free.add(body.name)
    try:
        service.fill(row, dict(body))
    except ValidationError as error:
        raise not_valid(list(lines_of(error))) from error
    return _plan(row)


def _plan(schedule: Schedule) -> Plan:
    """Raises: ApiError (422) for one that was stored past its form."""
    try:
        with patiently():
            return plan_of(check(schedule))
    except (ValueError, OverflowError) as error:
        raise ApiError(422, f"no plan is possible: {error}", "correct the schedule") from error
