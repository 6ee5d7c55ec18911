"""Workers, and the sweeps of the progressive schedule: to look at."""

from django.contrib import admin
from django.utils import timezone
from unfold.decorators import display

from jobs.models import Sweep, Worker
from operations.admin.base import ReadOnlyAdmin, ago, column


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """Who serves which queues, and whether they are alive."""

    when_empty = "A worker is a process that makes backups and delivers events. Start one on the host that does it."
    list_display = ("__str__", "life", "shown_queues", "started_at", "heartbeat", "stopped_at")
    list_filter = ("hostname", ("stopped_at", admin.EmptyFieldListFilter))
    ordering = ("-id",)

    @display(description="life", label={"alive": "success", "silent": "danger", "stopped": ""})
    def life(self, worker: Worker) -> str:
        return "stopped" if worker.stopped_at else "alive" if worker.is_alive(timezone.now()) else "silent"

    @admin.display(description="queues")
    def shown_queues(self, worker: Worker) -> str:
        return ", ".join(f"{name} {concurrency}" for name, concurrency in worker.queues.items())

    heartbeat = column("heartbeat_at", "heartbeat", ago)


@admin.register(Sweep)
class SweepAdmin(ReadOnlyAdmin):
    """A line a tier that has been swept. What waits for a sweep that does not come, the doctor says."""

    when_empty = "Each tier of the progressive schedule is listed here once it has been swept."
    list_display = ("__str__", "swept_at", "swept", "left")

    @display(description="left some", label={"yes": "warning"}, ordering="left_some")
    def left(self, sweep: Sweep) -> str:
        return "yes" if sweep.left_some else ""
