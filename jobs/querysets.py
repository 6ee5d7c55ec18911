"""Names of the sets of records that people and code ask for."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.db import models

from jobs.states import FINISHED, UNFINISHED, Status

if TYPE_CHECKING:
    from jobs.models.backlog_record import BacklogRecord  # noqa: F401


class BacklogRecordQuerySet(models.QuerySet["BacklogRecord"]):
    """Sets of backlog records. docs/lifecycle.md has the states."""

    def waiting(self) -> BacklogRecordQuerySet:
        return self.filter(status=Status.WAITING)

    def ready(self) -> BacklogRecordQuerySet:
        return self.filter(status=Status.READY)

    def running(self) -> BacklogRecordQuerySet:
        return self.filter(status=Status.RUNNING)

    def unfinished(self) -> BacklogRecordQuerySet:
        return self.filter(status__in=UNFINISHED)

    def finished(self) -> BacklogRecordQuerySet:
        return self.filter(status__in=FINISHED)

    def open_at(self, now: datetime) -> BacklogRecordQuerySet:
        """Those whose window has not closed by `now`."""
        return self.filter(models.Q(closes_at=None) | models.Q(closes_at__gt=now))

    def in_claim_order(self) -> BacklogRecordQuerySet:
        """ProactiveAI order, as `jobs/claiming.py` claims."""
        from jobs.models.backlog_record import CLAIM_ORDER

        return self.order_by(*CLAIM_ORDER)
