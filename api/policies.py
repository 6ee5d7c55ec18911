"""Policies, each together with its schedule as one thing, as in the admin."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import Count, QuerySet
from django.http import HttpRequest
from ninja import Field, Query, Schema

from api.auth import Staff, name_of, viewing
from api.declared_resources import DeclaredResource
from api.errors import ApiError, not_valid
from api.fields import Instant, MovedAnswer, Name, RowAnswer
from api.models import Scope
from api.pausing import PauseRequest
from fleet import pauses
from fleet.policy_edits import Policies
from jobs import rollouts
from sources import models, planning
from sources.declarations.policies import PolicyDeclaration
from sources.domain.preview import PreviewedPeriod
from sources.domain.windows import Opening
from sources.planning import previews
from sources.planning.previews import LARGEST_COUNT

PAUSING = Staff(Scope.OPERATE, "sources.change_policy")


class PolicyAnswer(PolicyDeclaration):
    """A policy. `schedule`: the id of its schedule."""

    id: int
    schedule: int
    sources: int = Field(description="The number of sources under it")
    next_trigger_at: datetime | None = Field(description="When its next period begins; null while it is disabled")
    paused_until: datetime | None = Field(
        description="While it is disabled: when it is enabled automatically; null if a user has to enable it"
    )
    paused_why: str
    edit_under_way: rollouts.RolloutProgress | None = Field(
        description="Null: all its assignments follow its last edit"
    )


class PolicyPreviewQuery(Schema):
    """The number of periods, and the instant from which on; now by default."""

    count: int = Field(10, ge=1, le=LARGEST_COUNT)
    start: Instant | None = Field(None, alias="from")


class OpeningAnswer(RowAnswer, of=Opening, names="opens_at closes_at"):
    """A stretch in which the window is open, cut at the ends of the period; `*_local`: in the policy's zone."""

    opens_at_local: datetime
    closes_at_local: datetime
    seconds: float


class PeriodAnswer(RowAnswer, of=PreviewedPeriod, names="begins_at ends_at warning"):
    """A period. `warning`: why it has no opening, else empty."""

    begins_at_local: datetime
    ends_at_local: datetime
    seconds: float
    openings: list[OpeningAnswer]


class HolidayAnswer(Schema):
    """A public holiday, on which no range of a window begins."""

    date: str
    name: str


class PolicyPreviewAnswer(Schema):
    """The coming periods of a policy with their openings."""

    policy: str
    enabled: bool
    cron: str
    zone: str
    window: Any
    excluded_dates: Any
    holidays: list[HolidayAnswer] = Field(description="The next ones among the excluded dates: ten at most")
    not_kept: dict[str, list[str]] = Field(description="By kind of source: what no backup of such a source keeps")
    periods: list[PeriodAnswer]


class PoliciesOfTheApi(DeclaredResource[models.Policy]):
    """`repository`, `throttle`: of that name."""

    service, tag, answer = Policies, "policies", PolicyAnswer
    filters = {"name": Name, "enabled": bool, "repository": Name, "throttle": Name}
    lookups = {
        "name": "schedule__name", "enabled": "schedule__enabled", "throttle": "schedule__throttle__name",
        "repository": "repository__name",
    }  # fmt: skip
    computed = {"next_trigger_at": lambda row: row.schedule.next_trigger_at if row.schedule.enabled else None}
    orderings = ("id", "schedule__name", "schedule__priority", "schedule__next_trigger_at")

    def rows(self) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().rows().annotate(sources=Count("assignments"))
        return rows

    def facts(self, rows: Sequence[models.Policy]) -> list[dict[str, Any]]:
        under_way = rollouts.progress("policy", [row.pk for row in rows])
        return [self.own_facts(row) | {"edit_under_way": under_way.get(row.pk)} for row in rows]


resource = PoliciesOfTheApi()
router = resource.router


@resource.verb(
    "back-up-now", Staff(Scope.OPERATE, "sources.change_source"), "Back up all its sources now", answer=MovedAnswer,
    named="back up policy now", has=["conflict"], noted="Back up now",
)  # fmt: skip
def back_up_now(request: HttpRequest, policy: models.Policy) -> dict[str, int]:
    """Back up its sources regardless of period and window. Paused ones are left out, and backups under way are left
    alone.
    """
    if not policy.schedule.enabled:
        raise ApiError(409, "the policy is disabled", "enable it first")
    return {"moved": planning.back_up_now(policy.assignments.all(), asked_by=name_of(request))}


@resource.verb("pause", PAUSING, "No more backups of its sources")
def pause(request: HttpRequest, policy: models.Policy, query: Query[PauseRequest]) -> None:
    """The policy is disabled until it is resumed, by a user or automatically at `until`. Running backups continue."""
    pauses.pause_policy(policy, by=name_of(request), **query.checked())


@resource.verb("resume", PAUSING, "Back its sources up again")
def resume(request: HttpRequest, policy: models.Policy) -> None:
    """Enable it; due assignments are put on the backlog at once."""
    pauses.resume_policy(policy, by=name_of(request))


@router.get(
    "/policies/{path:name}/preview", auth=viewing("sources.policy"), response=PolicyPreviewAnswer,
    operation_id="preview_policy", summary="The next periods and their openings",
)  # fmt: skip
def preview(request: HttpRequest, name: str, query: Query[PolicyPreviewQuery]) -> dict[str, Any]:
    """Its periods from now on, or from the instant `from`. `name`: the name of the policy, or its id if no policy has
    that name.
    """
    policy = _named(name)
    if query.count > previews.TO_LOOK_AT and not request.user.has_perm("sources.change_policy"):
        errors = [("count", f"is more than {previews.TO_LOOK_AT}, and this account may not change policies")]
        raise not_valid(errors, f"ask for {previews.TO_LOOK_AT} at most")
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
        raise resource.missing()
    return found
