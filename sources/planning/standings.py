"""How the assignments of a source stand: what a check-in needs to know, and its agent reads. One statement, since a
hundred thousand agents ask every five minutes."""

from datetime import datetime
from typing import NamedTuple

from jobs.prepared import execute
from jobs.states import UNFINISHED, Status, WaitingFor
from sources.domain.alerts import AlertState
from sources.planning.names import AVAILABILITY, KIND, subject_of

# Served by the index of the assignments' source and by `one_unfinished_record_per_subject`, one descent each.
STANDINGS = f"""
SELECT a.id, origin.name, origin.zone, schedule.enabled AND s.paused_at IS NULL, p.on_battery, p.on_metered,
       a.last_backup_at, a.next_backup_at, a.overdue_since, a.vanished_at, b.status, b.waiting_for, b.queue
  FROM sources_assignment a
  JOIN sources_source s ON s.id = a.source_id
  JOIN sources_policy p ON p.id = a.policy_id
  JOIN schedules_schedule schedule ON schedule.origin_id = p.schedule_id
  JOIN jobs_origin origin ON origin.id = p.schedule_id
  LEFT JOIN LATERAL (
       SELECT status, waiting_for, queue
         FROM jobs_backlogrecord
        WHERE kind = '{KIND}' AND subject = 'assignment:' || a.id AND status IN {tuple(map(int, UNFINISHED))}
        LIMIT 1) AS b ON TRUE
 WHERE a.source_id = %(source)s
 ORDER BY origin.name
"""


class Standing(NamedTuple):
    """An assignment, what its policy says of agents, and where its unfinished record is, if it has one.

    `is_active`: its source is not paused, and its policy is enabled.
    """

    id: int
    policy: str
    zone: str
    is_active: bool
    on_battery: bool
    on_metered: bool
    last_backup_at: datetime | None
    next_backup_at: datetime | None
    overdue_since: datetime | None
    vanished_at: datetime | None
    status: int | None
    waiting_for: int | None
    queue: str | None

    @property
    def subject(self) -> str:
        return subject_of(self.id)

    @property
    def waits_for_an_answer(self) -> bool:
        """Whether a check-in may move its record; of one that runs, a settle may come at the same moment."""
        rechecks = self.status == Status.WAITING and self.waiting_for == WaitingFor.RECHECK
        return rechecks or self.status == Status.RUNNING or (self.status == Status.READY and self.queue == AVAILABILITY)

    def is_due(self, now: datetime) -> bool:
        """Never backed up, or its next-backup date has come."""
        return self.next_backup_at is None or self.next_backup_at <= now

    def state(self, now: datetime) -> AlertState:
        """As `sources.protection.with_alert_state` says it of the rows."""
        if self.last_backup_at is None:
            return AlertState.NEVER
        if self.overdue_since is not None:
            return AlertState.OVERDUE
        return AlertState.DUE if self.is_due(now) else AlertState.PROTECTED


def standings_of(source_id: int) -> list[Standing]:
    """Of all assignments of a source, by the name of their policy."""
    return [Standing(*row) for row in execute(STANDINGS, {"source": source_id}, prepare=True)]
