"""The editor next to the workers: a thread that gets one edit at a time. And the minute's tick of django-q2."""

from collections.abc import Callable

from django.db import transaction

import jobs.tick
from jobs import rescheduling, rollouts
from jobs.backlog.cancelling import cancel
from jobs.models import BacklogRecord, RetryPolicy
from jobs.states import Status
from proving.chaos.protocol.waits import SimulatedQueue
from schedules.models import Schedule

rollouts.LOCK_SECONDS = 3_600
"""Seconds of the real clock, which does not matter here."""


class Desk:
    """Does its edits one after the other. Nothing disturbs it, so any exception is a fault."""

    def __init__(self) -> None:
        self.jobs = SimulatedQueue()

    def run(self) -> None:
        while True:
            job: Callable[[], object] = self.jobs.get()
            job()


def follow(schedule_id: int) -> None:
    """Give a schedule and its records the other retry policy."""
    schedule = Schedule.objects.get(pk=schedule_id)
    schedule.retry_policy = RetryPolicy.objects.exclude(origin=schedule).order_by("pk")[0]
    schedule.save(update_fields=["retry_policy"])
    rescheduling.follow(schedule)


@transaction.atomic
def replan() -> None:
    """Do as an edit of a policy: lock all its unfinished records in id order, and update the running ones."""
    records = BacklogRecord.objects.filter(status__in=(Status.WAITING, Status.READY, Status.RUNNING))
    ids = list(records.select_for_update().order_by("pk").values_list("pk", flat=True))
    BacklogRecord.objects.filter(pk__in=ids, status=Status.RUNNING).update(priority=1)


@transaction.atomic
def hold(record_id: int) -> None:
    """Lock one row, and release it some time later."""
    list(BacklogRecord.objects.filter(pk=record_id).select_for_update())


def stop(record_id: int) -> None:
    """Cancel one record, as an operator does."""
    cancel([record_id])


def tick() -> None:
    """Do as `jobs.periodic.tick`, without a rescue."""
    jobs.tick.tick(rescue=False)
