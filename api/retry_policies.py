"""Retry policies, with the waits after the first failures."""

from collections.abc import Sequence
from typing import Any

from api.declared import Declared
from api.fields import Name
from jobs import models, retries
from operations.declarations import AlgorithmName, RetryPolicies, RetryPolicy

SHOWN_DELAYS = 10


class RetryPolicyAnswer(RetryPolicy):
    """All durations are in seconds. `first_delays`: one draw of chance; empty where sweeps take the records."""

    id: int
    first_delays: list[float]


class RetryPoliciesOfTheApi(Declared[models.RetryPolicy]):
    """Retry policies. What waits by one follows an edit of it."""

    service, tag, answer = RetryPolicies, "rules", RetryPolicyAnswer
    filters = {"name": Name, "algorithm": AlgorithmName}
    orderings, usual_ordering = ("id", "name"), "name"

    def facts(self, rows: Sequence[models.RetryPolicy]) -> list[dict[str, Any]]:
        """With one draw of the first waits."""
        return [self.own_facts(row) | {"first_delays": _first_delays(row)} for row in rows]


def _first_delays(policy: models.RetryPolicy) -> list[float]:
    rule = policy.as_rule()
    if retries.problems(policy.algorithm, policy.parameters, policy.max_failures) or rule.waits_for_sweeps:
        return []
    return [retries.delay(rule, failures) for failures in range(1, SHOWN_DELAYS + 1)]


router = RetryPoliciesOfTheApi().router
