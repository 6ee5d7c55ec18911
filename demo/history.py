"""Sixty made-up days before the demo, the same in each run, for the calendar, the curves and the days of home. The
shown events of today are real."""

import random
from datetime import datetime, timedelta

from dashboard import days
from dashboard.models import DayTotal
from jobs.models import Attempt, BacklogRecord
from jobs.states import AttemptOutcome, Status
from sources.models import Assignment, Backup, Source
from sources.planning import AVAILABILITY, BACKUPS, subject_of

DAYS = 60
OFTEN_AWAY = ("demo-late", "demo-vanisher", "demo-sleeper")
ERRORS = {AttemptOutcome.UNAVAILABLE: "no route to host", AttemptOutcome.FAILED: "the connection was reset"}

Tried = tuple[str, AttemptOutcome, datetime, float]
"""Queue, outcome, start, seconds."""


class History:
    """The days before the demo, written for each source once it has its first real backup, which they resemble."""

    def __init__(self, began: datetime) -> None:
        self._rng = random.Random(7)  # noqa: S311 - not for secrets
        self._began = began
        self._known: set[int] = set()

    @property
    def first(self) -> datetime:
        return self._began - timedelta(days=DAYS)

    def look(self) -> None:
        """Write the history of each source that has its first backup since the last look."""
        found = Assignment.objects.exclude(pk__in=self._known).exclude(last_backup_at=None)
        new = list(found.select_related("source", "policy__schedule").order_by("source__name"))
        for assignment in new:
            self._known.add(assignment.pk)
            Source.objects.filter(pk=assignment.source_id).update(inserted_at=self.first)
            Assignment.objects.filter(pk=assignment.pk).update(inserted_at=self.first)
            self._write(assignment)
        if new:  # a worker has counted the days, too, when they were empty
            DayTotal.objects.all().delete()
            while days.keep():
                pass

    def forget_backups(self) -> None:
        """Delete the rows of made-up backups, once all days are counted, as if retention had removed their points: no
        such points exist, and a check would miss them."""
        Backup.objects.filter(started_at__lt=self._began).delete()

    def _write(self, assignment: Assignment) -> None:
        """A record for each success, as the scheduler writes it, with the silences and failures before it."""
        rng, last = self._rng, assignment.backups.order_by("ended_at").first()
        if last is None or not last.size:
            return
        often_away = assignment.source.name.startswith(OFTEN_AWAY)
        size: float = last.size * rng.uniform(0.5, 0.7)
        growth = (last.size / size) ** (1 / DAYS)
        seconds_a_byte = (last.ended_at - last.started_at).total_seconds() / last.size
        period = assignment.policy.schedule.period
        trigger, tried = self.first, list[Tried]()
        while (trigger := period.next_after(trigger)) < last.started_at - timedelta(hours=3):
            size *= growth * rng.uniform(0.99, 1.01)
            at = trigger + timedelta(minutes=rng.uniform(1, 90))
            trouble = rng.random() if trigger < last.started_at - timedelta(days=2) else 1.0
            if trouble < (0.2 if often_away else 0.03):
                hours = (at + timedelta(hours=hour) for hour in range(6))
                tried += [(AVAILABILITY, AttemptOutcome.UNAVAILABLE, hour, 2) for hour in hours]
            elif 0.97 < trouble < 1.0:
                tried.append((BACKUPS, AttemptOutcome.FAILED, at, 9))
            else:
                tried.append((AVAILABILITY, AttemptOutcome.HANDOFF, at, 0.1))
                seconds = seconds_a_byte * size * rng.uniform(0.8, 1.3)
                tried.append((BACKUPS, AttemptOutcome.SUCCEEDED, at + timedelta(seconds=1), seconds))
                _succeed(assignment, trigger, tried, int(size), last)
                tried = []


def _succeed(assignment: Assignment, trigger: datetime, tried: list[Tried], size: int, like: Backup) -> None:
    *_, (_, _, at, seconds) = tried
    ended_at = at + timedelta(seconds=seconds)
    record = BacklogRecord.objects.create(
        kind="backup", queue=BACKUPS, subject=subject_of(assignment.pk), status=Status.SUCCEEDED, run_after=at,
        payload={"assignment": assignment.pk, "title": assignment.source.name}, attempt=len(tried),
        inserted_at=trigger, finished_at=ended_at,
    )  # fmt: skip
    Attempt.objects.bulk_create(
        Attempt(
            record=record, number=number, queue=queue, outcome=outcome, started_at=began,
            ended_at=began + timedelta(seconds=lasted), error=ERRORS.get(outcome, ""),
        )
        for number, (queue, outcome, began, lasted) in enumerate(tried, 1)
    )  # fmt: skip
    Backup.objects.create(
        assignment=assignment, repository=like.repository, record_id=record.pk, attempt=len(tried), engine=like.engine,
        started_at=at, ended_at=ended_at, size=size, files=like.files, new=3, changed=5,
        unchanged=max(0, like.files - 8), removed=1, read=size // 9, added=size // 20,
        snapshot=f"{at:%Y-%m-%dT%H-%M-%SZ}",
    )  # fmt: skip
