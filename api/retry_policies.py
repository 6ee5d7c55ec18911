"""Retry policies, with the waits after the first failures."""

from api.declared_resources import DeclaredResource
from api.fields import Name
from jobs import models, retries
from operations.declarations import AlgorithmName, RetryPolicies, RetryPolicyDeclaration

SHOWN_DELAYS = 10


class RetryPolicyAnswer(RetryPolicyDeclaration):
    """All durations are in seconds. `first_delays`: one draw of chance; empty where sweeps take the records."""

    id: int
    first_delays: list[float]


def _first_delays(policy: models.RetryPolicy) -> list[float]:
    rule = policy.as_rule()
    if retries.problems(policy.algorithm, policy.parameters, policy.max_failures) or rule.waits_for_sweeps:
        return []
    return [retries.delay(rule, failures) for failures in range(1, SHOWN_DELAYS + 1)]


class RetryPoliciesOfTheApi(DeclaredResource[models.RetryPolicy]):
    """Retry policies. Records that wait under one follow an edit."""

    service, tag, answer = RetryPolicies, "rules", RetryPolicyAnswer
    filters = {"name": Name, "algorithm": AlgorithmName}
    computed = {"first_delays": _first_delays}
    orderings, usual_ordering = ("id", "name"), "name"


router = RetryPoliciesOfTheApi().router
