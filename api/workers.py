"""Workers: who serves which queues."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Count, Q

from api.fields import Name, RowAnswer
from api.resources import Resource
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Worker
from jobs.states import Status


class WorkerAnswer(RowAnswer, of=Worker, names="id name hostname pid started_at heartbeat_at stopped_at clock_skew"):
    """A process that serves queues. `queues`: queue → how many of its records are run at once. `clock_skew` in seconds.
    `alive`: its heartbeat is younger than a lease.
    """

    queues: dict[str, int]
    alive: bool
    running: int


def _is_alive(alive: bool) -> Q:
    living = Q(pk__in=Worker.alive(database_clock()))
    return living if alive else ~living


class Workers(Resource[Worker]):
    """Worker processes, the latest first."""

    model, tag, answer = Worker, "workers", WorkerAnswer
    filters, lookups = {"alive": bool, "hostname": Name}, {"alive": _is_alive}
    usual_ordering = "-id"

    def facts(self, rows: Sequence[Worker]) -> list[dict[str, Any]]:
        """The answers' fields, with the workers' state and runs."""
        now = database_clock()
        running = BacklogRecord.objects.filter(status=Status.RUNNING, leased_by__in=[row.pk for row in rows])
        counts = dict(running.order_by().values_list("leased_by").annotate(Count("pk")))
        return [self.own_facts(row) | {"alive": row.is_alive(now), "running": counts.get(row.pk, 0)} for row in rows]


router = Workers().router
