"""Names of the sets of sources and assignments that people and code ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models, transaction
from django.db.models import Aggregate, Max, Min, OuterRef, Subquery

if TYPE_CHECKING:
    from sources.models.assignment import Assignment  # noqa: F401
    from sources.models.source import Source  # noqa: F401


class SourceQuerySet(models.QuerySet["Source"]):
    """Sets of sources."""

    def active(self) -> SourceQuerySet:
        return self.filter(paused_at=None, retired_at=None)

    def update_unless_locked(self, **values: Any) -> int:
        """Update these sources, but none that another transaction holds: an import of a fleet does so for a while.
        Returns how many."""
        with transaction.atomic():
            free = list(self.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))
            return self.model._default_manager.filter(pk__in=free).update(**values)

    def with_protection(self) -> SourceQuerySet:
        """Annotate `last_backup_at`, `proved_at`, `next_backup_at` and `failures` over all assignments of
        each source, of those that are shown alone: joined and grouped, a page of 100,000 took twice as long."""
        return self.annotate(
            last_backup_at=self._of_assignments(Max("last_backup_at")),
            proved_at=self._of_assignments(Max("proved_at")),
            next_backup_at=self._of_assignments(Min("next_backup_at")),
            failures=self._of_assignments(Max("failures")),
        )

    def _of_assignments(self, found: Aggregate) -> Subquery:
        related = self.model._meta.get_field("assignments").related_model._default_manager
        rows = related.filter(source=OuterRef("pk")).order_by().values("source")
        return Subquery(rows.annotate(_found=found).values("_found"))


class AssignmentQuerySet(models.QuerySet["Assignment"]):
    """Sets of assignments."""

    def active(self) -> AssignmentQuerySet:
        """Those whose source is neither paused nor retired, under a policy that is enabled."""
        return self.filter(source__paused_at=None, source__retired_at=None, policy__schedule__enabled=True)
