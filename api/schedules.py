"""Schedules: edited, triggered, paused, and planned before and after they are saved. A policy's is edited with it."""

from collections.abc import Sequence
from functools import partial
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
from api.resources import Resource, names_of
from api.schedule_previews import preview
from api.schedule_schemas import (
    CronFields,
    PlanAnswer,
    PreviewAnswer,
    PreviewQuery,
    ScheduleAnswer,
    ScheduleBody,
    ScheduleFilters,
    TriggerAnswer,
)
from api.triggers import resource as triggers
from api.wording import model_errors
from operations import rescheduling
from schedules import verbs
from schedules.capacity import check
from schedules.capacity_report import facts_of
from schedules.cron import from_fields
from schedules.models import Schedule
from schedules.validation import obstacle_to_deleting, obstacle_to_editing


class Schedules(Resource[Schedule]):
    """Schedules. The emitter heeds an edit at its next look, within a second."""

    model, name, plural, tag = Schedule, "schedule", "schedules", "schedules"
    body, answer, filters = ScheduleBody, ScheduleAnswer, ScheduleFilters
    orderings = ("id", "name", "next_trigger_at")
    moving = ("next_trigger_at", "endpoint_name", "throttle_name", "retry_policy_name")

    def rows(self) -> QuerySet[Any]:
        """With what their checks look at, and what is told of by name."""
        return Schedule.objects.select_related("endpoint", "throttle", "retry_policy")

    def facts(self, rows: Sequence[Schedule]) -> list[dict[str, Any]]:
        """With the names of what they refer to by id. A paused one triggers nothing next."""
        untold = {False: {"next_trigger_at": None}, True: {}}
        return [
            self.own_facts(row) | names_of(row, "endpoint", "throttle", "retry_policy") | untold[row.enabled]
            for row in rows
        ]

    def fill(self, row: Schedule, values: dict[str, Any]) -> set[str]:
        """Cron by fields becomes one expression."""
        cron = values.get("cron")
        if isinstance(cron, CronFields):
            try:
                values = values | {"cron": from_fields(**cron.dict())}
            except ValueError as error:
                raise not_valid([("cron", str(error))]) from error
        return super().fill(row, values)

    def refuse_change(self, request: HttpRequest, row: Schedule) -> None:
        """That of a policy is edited there, so that the dates that follow from it are computed anew."""
        if obstacle := obstacle_to_editing(row):
            raise ApiError(409, obstacle, "GET /api/docs shows what there is for it")

    def saved(self, request: HttpRequest, row: Schedule, changed: set[str] | None) -> None:
        """Its watermark, and the retry policy of what it has emitted."""
        verbs.saved(row, changed)
        if changed and "retry_policy" in changed:
            transaction.on_commit(partial(rescheduling.follow, row), robust=True)

    def uses_of(self, row: Schedule) -> list[str]:
        """Its unfinished events."""
        obstacle = obstacle_to_deleting(row)
        return [f"{obstacle}."] if obstacle else []


resource = Schedules()
router = resource.router()
WAY = "/schedules/{int:schedule_id}"


@router.post(
    f"{WAY}/trigger", auth=operating(), response={201: TriggerAnswer}, operation_id="trigger_schedule",
    summary="Trigger a schedule now", openapi_extra={"x-has": ["location", "etag", "idempotency", "conflict"]},
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


@router.post(
    f"{WAY}/pause", auth=operating(), response=ScheduleAnswer, operation_id="pause_schedule",
    summary="Pause a schedule", openapi_extra={"x-has": ["etag", "conflict"]},
)  # fmt: skip
def pause(request: HttpRequest, schedule_id: int) -> HttpResponse:
    """It triggers nothing until it is resumed. What it has emitted goes on."""
    return _switch(request, schedule_id, enabled=False)


@router.post(
    f"{WAY}/resume", auth=operating(), response=ScheduleAnswer, operation_id="resume_schedule",
    summary="Resume a schedule", openapi_extra={"x-has": ["etag", "conflict"]},
)  # fmt: skip
def resume(request: HttpRequest, schedule_id: int) -> HttpResponse:
    """It triggers from now on. What it would have triggered while it was paused is not made up for."""
    return _switch(request, schedule_id, enabled=True)


@router.get(
    f"{WAY}/preview", auth=viewing("schedules.schedule"), response=PreviewAnswer, operation_id="preview_schedule",
    summary="The next triggers of a schedule",
)  # fmt: skip
def preview_schedule(request: HttpRequest, schedule_id: int, query: Query[PreviewQuery]) -> dict[str, Any]:
    """From now on, or after the instant `from`."""
    try:
        return {"triggers": preview(resource.get(schedule_id), query.count, query.start)}
    except (ValueError, OverflowError) as error:
        raise ApiError(
            422, f"no preview is possible: {error}", "correct the schedule, or ask for another `from`"
        ) from error


@router.get(
    f"{WAY}/plan", auth=viewing("schedules.schedule"), response=PlanAnswer, operation_id="plan_schedule",
    summary="The load of the next seven days",
)  # fmt: skip
def plan(request: HttpRequest, schedule_id: int) -> dict[str, Any]:
    """And whether its batches complete in their windows at the pace of its throttle."""
    return _plan(resource.get(schedule_id))


@router.post(
    "/schedules/plan", auth=Staff(Scope.READ, "schedules.add_schedule", "schedules.change_schedule"),
    response=PlanAnswer, operation_id="plan_new_schedule", summary="The load of a schedule that is not saved",
)  # fmt: skip
def plan_new(request: HttpRequest, body: ScheduleBody) -> dict[str, Any]:
    """As for one that is saved. Nothing is saved."""
    row = Schedule()
    resource.fill(row, {name: getattr(body, name) for name in ScheduleBody.model_fields})
    try:
        row.full_clean(validate_unique=False)
    except ValidationError as error:
        raise not_valid(model_errors(error)) from error
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
    resource.refuse_change(request, schedule)
    if schedule.enabled != enabled:
        verbs.resume(schedule) if enabled else verbs.pause(schedule)
        history.noted(request, schedule, "Resumed" if enabled else "Paused")
    return resource.respond(resource.get(schedule_id))
