"""Policies, each together with its schedule as one thing, as in the admin."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from ninja import Query

from api import history
from api.assignment_schemas import MovedAnswer, PolicyPreviewAnswer, PolicyPreviewQuery
from api.auth import Staff, user_of, viewing
from api.errors import ApiError, not_valid
from api.models import Scope
from api.policy_schemas import MOVING, PolicyAnswer, PolicyBody, PolicyFilters
from api.resources import Resource, names_of
from operations import rollouts
from schedules.models import Schedule
from sources import edits, planning, previews
from sources.models import Policy

ATTRIBUTE = {"retry_policy": "retry_policy_id", "throttle": "throttle_id"}
"""Of a schedule: fields that hold ids here."""

COLUMN = {"name": "schedule__name", "enabled": "schedule__enabled", "throttle": "schedule__throttle"}


class Policies(Resource[Policy]):
    model, name, plural, tag = Policy, "policy", "policies", "policies"
    body, answer, filters = PolicyBody, PolicyAnswer, PolicyFilters
    orderings = ("id", "schedule__name", "schedule__priority", "schedule__next_trigger_at")
    moving = MOVING

    def rows(self) -> QuerySet[Any]:
        joined = Policy.objects.select_related("schedule__throttle", "schedule__retry_policy", "repository")
        return joined.annotate(sources=Count("assignments"))

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        return rows.filter(**{COLUMN.get(name, name): value for name, value in asked.items()})

    def facts(self, rows: Sequence[Policy]) -> list[dict[str, Any]]:
        under_way = rollouts.progress("policy", [row.pk for row in rows])
        return [
            self.own_facts(row)
            | names_of(row, "repository")
            | _of_schedule(row.schedule)
            | {"edit_under_way": asdict(found) if (found := under_way.get(row.pk)) else None}
            for row in rows
        ]

    def new(self, values: dict[str, Any]) -> Policy:
        return Policy(schedule=Schedule(kind=planning.KIND, provider="assignments"))

    def fill(self, row: Policy, values: dict[str, Any]) -> set[str]:
        own = {name: value for name, value in values.items() if name not in edits.SCHEDULE_FIELDS}
        changed = super().fill(row, own)
        for name in values.keys() & set(edits.SCHEDULE_FIELDS):
            attribute = ATTRIBUTE.get(name, name)
            if getattr(row.schedule, attribute) != values[name]:
                setattr(row.schedule, attribute, values[name])
                changed.add(name)
        return changed

    def check(self, row: Policy) -> None:
        """The schedule and the policy together: the window is read in the schedule's zone."""
        errors: dict[str, Any] = {}
        for each, left_out in ((row.schedule, set()), (row, {"schedule"})):
            try:
                each.full_clean(exclude=left_out)
            except ValidationError as error:
                errors |= error.error_dict
        if errors:
            raise ValidationError(errors)

    def lock(self, row_id: int) -> bool:
        return edits.lock_policy(row_id)

    def save(self, request: HttpRequest, row: Policy, changed: set[str] | None) -> None:
        edits.save_policy(row, changed)

    def uses_of(self, row: Policy) -> list[str]:
        count = row.assignments.count()
        return [f"{count:,} source{'s are' if count != 1 else ' is'} under it."] if count else []

    def remove(self, request: HttpRequest, row: Policy) -> None:
        edits.delete_policies([row])


def _of_schedule(schedule: Schedule) -> dict[str, Any]:
    names = (*edits.SCHEDULE_FIELDS, "next_trigger_at")
    facts = {name: getattr(schedule, ATTRIBUTE.get(name, name)) for name in names} | {"schedule": schedule.pk}
    untold = {} if schedule.enabled else {"next_trigger_at": None}
    return facts | names_of(schedule, "throttle", "retry_policy") | untold


policies = Policies()
router = policies.router()


@router.post(
    f"{policies.one_path}/back-up-now",
    auth=Staff(Scope.OPERATE, "sources.change_source"),
    response=MovedAnswer,
    operation_id="back_up_policy_now",
    summary="Back up all its sources now",
    openapi_extra={"x-has": ["conflict"]},
)
def back_up_now(request: HttpRequest, policy_id: int) -> dict[str, int]:
    """Out of its period and window. Paused sources are left out, and what is copied already is left alone."""
    policy = policies.get(policy_id)
    if not policy.schedule.enabled:
        raise ApiError(409, "the policy is disabled", "enable it first")
    moved = planning.back_up_now(policy.assignments.all(), asked_by=user_of(request).get_username())
    history.noted(request, policy, "Back up now")
    return {"moved": moved}


@router.get(
    "/policies/{path:name}/preview",
    auth=viewing("sources.policy"),
    response=PolicyPreviewAnswer,
    operation_id="preview_policy",
    summary="The next periods and their openings",
)
def preview(request: HttpRequest, name: str, query: Query[PolicyPreviewQuery]) -> dict[str, Any]:
    """From now on, or from the instant `from`. `name`: the name of the policy; or its id, when none has that name."""
    policy = _named(name)
    try:
        periods = previews.preview(policy, query.count, query.start)
        return previews.as_json(policy, periods)
    except (ValueError, OverflowError) as error:
        errors = [("", f"no preview is possible: {error}")]
        raise not_valid(errors, "correct the policy, or ask for another `from`") from error


def _named(name: str) -> Policy:
    """Raises: ApiError (404)."""
    known = Policy.objects.select_related("schedule")
    found = known.filter(schedule__name=name).first() if name.isprintable() else None
    if found is None and name.isascii() and name.isdecimal() and len(name) < len(str(2**63)):
        found = known.filter(pk=int(name)).first()
    if found is None:
        raise ApiError(404, "there is no such policy", "GET /api/policies lists those there are")
    return found
