"""Retry policies, with the waits after the first failures."""

from collections.abc import Sequence
from typing import Annotated, Any

from django.db import transaction
from django.http import HttpRequest
from ninja import Field, Schema
from pydantic import AfterValidator

from api.fields import DURATION, LARGEST_INTEGER, Body, JsonObject, Name, Title
from api.resources import Resource
from jobs import retries
from jobs.models import RetryPolicy
from operations import rescheduling
from operations.retry_policy_uses import uses_of

SHOWN_DELAYS = 10


def _known(algorithm: str) -> str:
    if algorithm not in retries.ALGORITHMS:
        raise ValueError(f"must be one of {', '.join(sorted(retries.ALGORITHMS))}")
    return algorithm


AlgorithmName = Annotated[str, Field(json_schema_extra={"enum": sorted(retries.ALGORITHMS)}), AfterValidator(_known)]
Positive = Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
PositiveSeconds = Annotated[int, Field(ge=1, le=LARGEST_INTEGER), DURATION]


class RetryPolicyBody(Body):
    """Durations are seconds, or as `15m`. `parameters`: of the algorithm; what is left out has its usual value.

    `max_failures`, `give_up_after`: when it gives up; null: never.
    """

    name: Title
    algorithm: AlgorithmName
    parameters: JsonObject = Field(default_factory=dict)
    max_delay: PositiveSeconds = 86_400
    max_failures: Positive | None = None
    give_up_after: PositiveSeconds | None = None


class RetryPolicyAnswer(Schema):
    """All durations are in seconds. `first_delays`: one draw of chance; empty where sweeps take the records."""

    id: int
    name: str
    algorithm: str
    parameters: Any
    max_delay: int
    max_failures: int | None
    give_up_after: int | None
    first_delays: list[float]


class RetryPolicyFilters(Schema):
    """By name and algorithm."""

    name: Name | None = None
    algorithm: AlgorithmName | None = None


class RetryPolicies(Resource[RetryPolicy]):
    """Retry policies. What waits by one follows an edit of it."""

    model, name, plural, tag = RetryPolicy, "retry policy", "retry policies", "rules"
    body, answer, filters = RetryPolicyBody, RetryPolicyAnswer, RetryPolicyFilters
    orderings = ("id", "name")
    usual_ordering = "name"
    moving = ("first_delays",)

    def facts(self, rows: Sequence[RetryPolicy]) -> list[dict[str, Any]]:
        """With one draw of the first waits."""
        return [self.own_facts(row) | {"first_delays": _first_delays(row)} for row in rows]

    def saved(self, request: HttpRequest, row: RetryPolicy, changed: set[str] | None) -> None:
        """What waits by it follows when the save is committed: locks of many records must not last as long.

        Who fails to follow does so at its next failure, so an error is logged and no more.
        """
        if changed and changed & set(retries.DECIDING):
            transaction.on_commit(lambda: rescheduling.apply(row), robust=True)

    def uses_of(self, row: RetryPolicy) -> list[str]:
        """As the admin tells them, without links."""
        return [f"{each}." for each in uses_of(row)]


def _first_delays(policy: RetryPolicy) -> list[float]:
    rule = policy.as_rule()
    if retries.problems(policy.algorithm, policy.parameters, policy.max_failures) or rule.waits_for_sweeps:
        return []
    return [retries.delay(rule, failures) for failures in range(1, SHOWN_DELAYS + 1)]


router = RetryPolicies().router()
