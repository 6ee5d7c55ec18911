"""Backups of a policy, of which there may be millions: its assignments are few, and an index leads from each to its
backups. By a join the planner walks through all backups in the order of a list, in which it hopes to meet them soon.
"""

from django.db.models import Q

from sources.models import Assignment

MOST_NAMED = 1000
"""Assignments that a condition names one by one. If there are more, some of their backups are met soon."""


def of_policy(policy: int) -> Q:
    """The condition of backups of a policy."""
    found = _assignments(policy)
    return Q(assignment__policy=policy) if found is None else Q(assignment__in=found)


def is_small(policy: int | None) -> bool:
    """True if the policy has so few assignments that its backups are found by them, also if it does not exist; False
    without a policy.
    """
    return policy is not None and _assignments(policy) is not None


def _assignments(policy: int) -> list[int] | None:
    """Their ids; None if they are too many."""
    found = list(Assignment.objects.filter(policy=policy).order_by().values_list("pk", flat=True)[: MOST_NAMED + 1])
    return found if len(found) <= MOST_NAMED else None
