"""Retry policies and circuit breakers, to look at."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from jobs import breakers, retries
from jobs.api.auth import StaffAuth
from jobs.api.errors import ApiError
from jobs.api.schemas import BreakerAnswer, Error, RetryPolicyAnswer
from jobs.models import Breaker, RetryPolicy
from jobs.web.permissions import may_look

router = Router(tags=["rules"], auth=StaffAuth())

REFUSALS = {(401, 403): Error}

SHOWN_DELAYS = 10

MOST_BREAKERS = 1000


@router.get("/retry-policies", response={200: list[RetryPolicyAnswer], **REFUSALS}, summary="Retry policies")
def list_retry_policies(request: HttpRequest) -> list[dict[str, Any]]:
    """By name, each with the waits after its first failures, as one draw of chance has them."""
    _require(request, "retrypolicy")
    return [_policy(policy) for policy in RetryPolicy.objects.order_by("name")]


@router.get("/breakers", response={200: list[BreakerAnswer], **REFUSALS}, summary="Circuit breakers")
def list_breakers(request: HttpRequest) -> list[dict[str, Any]]:
    """Those that are open first."""
    if not may_look(request):
        _require(request, "breaker")
    return [_breaker(breaker) for breaker in Breaker.objects.order_by("opened_at", "key")[:MOST_BREAKERS]]


def _require(request: HttpRequest, model: str) -> None:
    """Raises: ApiError (403) for who may neither view nor change that model in the admin."""
    if not any(request.user.has_perm(f"jobs.{verb}_{model}") for verb in ("view", "change")):
        raise ApiError(403, hint="this account has not the permission; ask an administrator")


def _policy(policy: RetryPolicy) -> dict[str, Any]:
    names = ("name", "algorithm", "parameters", "max_delay", "max_failures", "give_up_after")
    return {name: getattr(policy, name) for name in names} | {"first_delays": _first_delays(policy)}


def _first_delays(policy: RetryPolicy) -> list[float]:
    rule = policy.as_rule()
    if retries.problems(policy.algorithm, policy.parameters, policy.max_failures) or rule.waits_for_sweeps:
        return []
    return [retries.delay(rule, failures) for failures in range(1, SHOWN_DELAYS + 1)]


def _breaker(breaker: Breaker) -> dict[str, Any]:
    names = ("key", "title", "failures", "last_failure_at", "last_error", "opened_at", "probe_at", "trials")
    state = {"state": breakers.state_of(breaker), "waiting": breakers.held_by(breaker)}
    return {name: getattr(breaker, name) for name in names} | state
