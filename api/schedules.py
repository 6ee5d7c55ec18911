"""Schedules: edited, triggered, paused, and planned before and after they are saved. A policy's is edited with it."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Query

from api import history
from api.auth import Staff, operating, viewing
from api.choosing import patiently
from api.errors import ApiError, not_valid
from api.idempotency import once
from api.models import Scope
from api.resources import Resource
from api.schedule_schemas import (
    PlanAnswer,
    PreviewAnswer,
    PreviewQuery,
    ScheduleAnswer,
    ScheduleFilters,
    TriggerAnswer,
)
from api.triggers import resource as triggers
from declarations.problems import lines_of
from schedules import declarations, verbs
from schedules.capacity import check
from schedules.capacity_report import facts_of
from schedules.editing import Schedules
from schedules.models import Schedule
from schedules.obstacles import obstacle_to_editing
from schedules.previews import coming_batches

REFERENCES = ("throttle", "endpoint", "retry_policy")


class SchedulesOfTheApi(Resource[Schedule]):
    """Schedules. The emitter follows an edit at its next look, within a second."""

    service, tag = Schedules, "schedules"
    answer, filters = ScheduleAnswer, ScheduleFilters
    orderings = ("id", "name", "next_trigger_at")
    moving = ("next_trigger_at",)

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        """By the names of what they refer to."""
        return rows.filter(**{f"{name}__name" if name in REFERENCES else name: asked[name] for name in asked})

    def facts(self, rows: Sequence[Schedule]) -> list[dict[str, Any]]:
        """A paused one triggers nothing next."""
        paused = {"next_trigger_at": None}
        return [self.own_facts(row) | ({} if row.enabled else paused) for row in rows]


resource = SchedulesOfTheApi()
router = resource.router()


@resource.verb(
    router, "trigger", operating(), "Trigger a schedule now", answer={201: TriggerAnswer},
    has=["location", "etag", "idempotency", "conflict"],
)  # fmt: skip
def trigger(request: HttpRequest, schedule_id: int) -> HttpResponse:
    """Its batch goes on the backlog now, beside what its cron triggers; what it emits is in the answer's `state`."""

    def fire() -> HttpResponse:
        schedule = resource.get(schedule_id)
        try:
            fired = verbs.trigger_now(schedule, str(request.user))
        except ValueError as error:
            raise ApiError(409, str(error), "ask again in a second") from error
        history.noted(request, schedule, "Triggered")
        response = triggers.respond(triggers.get(fired.pk), 201)
        response["Location"] = f"/api{triggers.path}/{fired.pk}"
        return response

    return once(request, fire)


@resource.verb(router, "pause", operating(), "Pause a schedule", has=["etag", "conflict"])
def pause(request: HttpRequest, schedule_id: int) -> HttpResponse:
    """It triggers nothing until it is resumed. What it has emitted goes on."""
    return _switch(request, schedule_id, enabled=False)


@resource.verb(router, "resume", operating(), "Resume a schedule", has=["etag", "conflict"])
def resume(request: HttpRequest, schedule_id: int) -> HttpResponse:
    """It triggers from now on. What it would have triggered while it was paused is not caught up."""
    return _switch(request, schedule_id, enabled=True)


@resource.verb(
    router,
    "preview",
    viewing("schedules.schedule"),
    "The next triggers of a schedule",
    answer=PreviewAnswer,
    method="get",
)
def preview_schedule(request: HttpRequest, schedule_id: int, query: Query[PreviewQuery]) -> dict[str, Any]:
    """From now on, or from the instant `from`."""
    schedule = resource.get(schedule_id)
    try:
        batches = coming_batches(schedule, query.count, query.start)
    except (ValueError, OverflowError) as error:
        raise ApiError(
            422, f"no preview is possible: {error}", "correct the schedule, or ask for another `from`"
        ) from error
    zone = schedule.period.tzinfo
    return {
        "triggers": [
            asdict(each)
            | {"events": each.events or 0, "trigger_at_local": each.trigger_at.astimezone(zone).isoformat()}
            for each in batches
        ]
    }


@resource.verb(
    router, "plan", viewing("schedules.schedule"), "The load of the next seven days", answer=PlanAnswer, method="get"
)
def plan(request: HttpRequest, schedule_id: int) -> dict[str, Any]:
    """And whether its batches complete in their windows at the pace of its throttle."""
    return _plan(resource.get(schedule_id))


@router.post(
    "/schedules/plan", auth=Staff(Scope.READ, "schedules.add_schedule", "schedules.change_schedule"),
    response=PlanAnswer, operation_id="plan_new_schedule", summary="The load of a schedule that is not saved",
)  # fmt: skip
def plan_new(request: HttpRequest, body: declarations.Schedule) -> dict[str, Any]:
    """As for one that is saved. Nothing is saved."""
    row, service = Schedule(), resource.edits(request)
    service.free.add(body.name)
    try:
        service.fill(row, dict(body))
    except ValidationError as error:
        raise not_valid(list(lines_of(error))) from error
    return _plan(row)


def _plan(schedule: Schedule) -> dict[str, Any]:
    """Raises: ApiError (422) for one that was stored past its form."""
    try:
        with patiently():
            return facts_of(check(schedule))
    except (ValueError, OverflowError) as error:
        raise ApiError(422, f"no plan is possible: {error}", "correct the schedule") from error


@transaction.atomic
def _switch(request: HttpRequest, schedule_id: int, *, enabled: bool) -> HttpResponse:
    resource.get(schedule_id)
    schedule = Schedule.objects.select_for_update(no_key=True).get(pk=schedule_id)
    if obstacle := obstacle_to_editing(schedule):
        raise ApiError(409, obstacle, "GET /api/docs shows what there is for it")
    if schedule.enabled != enabled:
        verbs.resume(schedule) if enabled else verbs.pause(schedule)
        history.noted(request, schedule, "Resumed" if enabled else "Paused")
    return resource.respond(resource.get(schedule_id))
