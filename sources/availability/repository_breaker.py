"""The circuit breaker of a repository: the failures that open it, and how the handlers of backups ask it.

Only failures that concern every source count: no directory, no space, a disk that is read-only or broken. An engine
also reports *repository failed* when it could not write in the directory of one assignment; so the repository is tried
before it is blamed.
"""

from datetime import datetime, timedelta

from django.db.models import CharField, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Cast, Coalesce, Concat
from django.db.models.lookups import LessThan

from jobs import breakers
from jobs.breakers import verbs
from jobs.models import Breaker
from jobs.outcomes import BreakerTarget, ClaimedRecord, Held
from sources.models import Assignment, Repository

PREFIX = "repository:"


def _key(repository_id: str) -> Concat:
    return Concat(Value(PREFIX), Cast(OuterRef(repository_id), CharField()), output_field=CharField())


def _open_breaker(repository_id: str) -> Subquery:
    return breakers.open_breaker(_key(repository_id))


OPEN_BREAKER = _open_breaker("policy__repository_id")
"""An expression for a query of assignments: the id of the open breaker of their repository."""

OPEN_BREAKER_OF_REPOSITORY = _open_breaker("pk")
"""The same for a query of repositories."""


def blamed_since(instant: Coalesce, pause: timedelta, now: datetime) -> QuerySet[Breaker]:
    """A subquery of repositories: the breaker, if it opened after `instant`, or if a failure was counted after it while
    the breaker is closed, and `instant` is longer ago than `pause`. An open one counts once, since its trials continue
    to fail. Anything later than `now` is from a clock that was ahead, and does not count.
    """
    opened = Q(opened_at__gt=instant, opened_at__lte=now)
    failed = Q(opened_at=None, failures__gt=0, last_failure_at__gt=instant, last_failure_at__lte=now)
    failed &= Q(LessThan(instant, now - pause))
    return Breaker.objects.filter(opened | failed, key=_key("pk"))


def guarded_by(repository: Repository) -> BreakerTarget:
    """The guarded part of a repository, under a key that outlives a new name and a new location."""
    return BreakerTarget(f"{PREFIX}{repository.pk}", f"repository {repository}")


def refusal(assignment: Assignment, record: ClaimedRecord) -> Held | None:
    """The outcome that a handler returns instead of working while the breaker of the repository is open. `assignment`
    as `sources.availability.check.assignment_of` returns it.
    """
    if getattr(assignment, "open_breaker", None) is None:
        return None
    return breakers.refusal(guarded_by(assignment.policy.repository), record)


def try_again(repository: Repository, *, by: str) -> bool:
    """Let one record try a repository that was corrected, if its breaker is open. Returns whether it is."""
    found = Breaker.objects.filter(key=guarded_by(repository).key).values_list("pk", flat=True)
    return bool(verbs.probe_now(list(found), by=by))
