"""Names of the sets of sources and assignments that people and code ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models, transaction
from django.db.models import Max, Min

if TYPE_CHECKING:
    from sources.models.assignment import Assignment  # noqa: F401
    from sources.models.source import Source  # noqa: F401


class SourceQuerySet(models.QuerySet["Source"]):
    """Sets of sources."""

    def active(self) -> SourceQuerySet:
        return self.filter(paused_at=None)

    def update_unless_locked(self, **values: Any) -> int:
        """Update these sources, but none that another transaction holds: an import of a fleet does so for a while.
        Returns how many."""
        with transaction.atomic():
            free = list(self.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))
            return self.model._default_manager.filter(pk__in=free).update(**values)

    def with_protection(self) -> SourceQuerySet:
        """Annotate `last_backup_at`, `proved_at`, `next_backup_at` and `failures` over all assignments of
        each source."""
        return self.annotate(
            last_backup_at=Max("assignments__last_backup_at"),
            proved_at=Max("assignments__proved_at"),
            next_backup_at=Min("assignments__next_backup_at"),
            failures=Max("assignments__failures"),
        )


class AssignmentQuerySet(models.QuerySet["Assignment"]):
    """Sets of assignments."""

    def active(self) -> AssignmentQuerySet:
        """Those that are not paused, under a policy that is enabled."""
        return self.filter(source__paused_at=None, policy__schedule__enabled=True)
