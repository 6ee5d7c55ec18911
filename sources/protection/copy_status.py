"""How the copies of assignments stand: which are overdue, and a sentence for people."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import DateTimeField, ExpressionWrapper, F, QuerySet, Value

from external.formatting import moment
from sources.models import Assignment


def overdue(now: datetime) -> QuerySet[Assignment]:
    """Those with a point that has not been in their copy for longer than their policy wants. The index of what is to be
    copied serves it."""
    within = Value(timedelta(seconds=1)) * F("policy__copy_within")
    since = ExpressionWrapper(Value(now) - within, output_field=DateTimeField())
    behind = Assignment.objects.active().filter(to_copy_since__isnull=False, policy__copy_to__isnull=False)
    return behind.filter(to_copy_since__lt=since)


def doubt(assignment: Any, now: datetime) -> str:
    """What is wrong with the copy of an assignment, with its `policy` and `copies`; empty: nothing."""
    policy = assignment.policy
    if policy.copy_to_id is None:
        return ""
    error = next((each.error for each in assignment.copies.all() if each.repository_id == policy.copy_to_id), "")
    since = assignment.to_copy_since
    if since is None or now - since <= timedelta(seconds=policy.copy_within):
        return f"its copy: {error}" if error else ""
    return f"a point of it has not been in its copy since {moment(since)} UTC" + (f" ({error})" if error else "")
