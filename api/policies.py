"""Policies, each together with its schedule as one thing, as in the admin."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db.models import Count, QuerySet
from django.http import HttpRequest
from ninja import Field, Query, Schema

from api import history
from api.assignment_schemas import MovedAnswer, PolicyPreviewAnswer, PolicyPreviewQuery
from api.auth import Staff, user_of, viewing
from api.errors import ApiError, not_valid
from api.fields import Name
from api.models import Scope
from api.resources import Resource
from schedules import rollouts
from sources import models, planning, previews
from sources.edits import Policies
from sources.policy_declaration import Policy

COLUMN = {
    "name": "schedule__name", "enabled": "schedule__enabled", "throttle": "schedule__throttle__name",
    "repository": "repository__name",
}  # fmt: skip


class EditUnderWay(Schema):
    """How many assignments follow the last edit of their policy so far. The others do in the background."""

    done: int
    of: int


class PolicyAnswer(Policy):
    """A policy. `schedule`: the id of its schedule. Its ETag has nothing of what machines move (`sources`,
    `next_trigger_at`, `edit_under_way`)."""

    id: int
    schedule: int
    sources: int = Field(description="How many sources are under it")
    next_trigger_at: datetime | None = Field(description="When its next period begins; null while it is disabled")
    edit_under_way: EditUnderWay | None = Field(description="Null: all its assignments follow its last edit")


class PolicyFilters(Schema):
    """Which policies; of a repository or throttle of that name."""

    name: Name | None = None
    enabled: bool | None = None
    repository: Name | None = None
    throttle: Name | None = None


class PoliciesOfTheApi(Resource[models.Policy]):
    service, tag = Policies, "policies"
    answer, filters = PolicyAnswer, PolicyFilters
    orderings = ("id", "schedule__name", "schedule__priority", "schedule__next_trigger_at")
    moving = ("sources", "next_trigger_at", "edit_under_way")

    def rows(self) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().rows().annotate(sources=Count("assignments"))
        return rows

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        return rows.filter(**{COLUMN[name]: value for name, value in asked.items()})

    def facts(self, rows: Sequence[models.Policy]) -> list[dict[str, Any]]:
        under_way = rollouts.progress("policy", [row.pk for row in rows])
        return [
            self.own_facts(row)
            | {
                "schedule": row.schedule_id,
                "next_trigger_at": row.schedule.next_trigger_at if row.schedule.enabled else None,
                "edit_under_way": asdict(found) if (found := under_way.get(row.pk)) else None,
            }
            for row in rows
        ]


policies = PoliciesOfTheApi()
router = policies.router()


@policies.verb(
    router, "back-up-now", Staff(Scope.OPERATE, "sources.change_source"), "Back up all its sources now",
    answer=MovedAnswer, named="back_up_policy_now", has=["conflict"],
)  # fmt: skip
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


def _named(name: str) -> models.Policy:
    """Raises: ApiError (404)."""
    known = models.Policy.objects.select_related("schedule")
    found = known.filter(schedule__name=name).first() if name.isprintable() else None
    if found is None and name.isascii() and name.isdecimal() and len(name) < len(str(2**63)):
        found = known.filter(pk=int(name)).first()
    if found is None:
        raise ApiError(404, "there is no such policy", "GET /api/policies lists those there are")
    return found
