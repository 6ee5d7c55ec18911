"""Workers: who serves which queues."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Count, Q, QuerySet

from api.resources import Resource
from api.schemas import WorkerAnswer, WorkerFilters
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Worker
from jobs.states import Status


class Workers(Resource[Worker]):
    """Worker processes, the latest first."""

    model, name, plural, tag = Worker, "worker", "workers", "workers"
    answer, filters = WorkerAnswer, WorkerFilters
    usual_ordering = "-id"

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        """By host, and by whether they are alive."""
        alive = asked.pop("alive", None)
        if alive is not None:
            living = Q(pk__in=Worker.alive(database_clock()))
            rows = rows.filter(living) if alive else rows.exclude(living)
        return rows.filter(**asked)

    def facts(self, rows: Sequence[Worker]) -> list[dict[str, Any]]:
        """With whether they are alive, and what they run."""
        now = database_clock()
        running = BacklogRecord.objects.filter(status=Status.RUNNING, leased_by__in=[row.pk for row in rows])
        counts = dict(running.order_by().values_list("leased_by").annotate(Count("pk")))
        return [self.own_facts(row) | {"alive": row.is_alive(now), "running": counts.get(row.pk, 0)} for row in rows]


router = Workers().router()
