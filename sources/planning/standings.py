"""Standings of the assignments of a source: the facts that a check-in needs and its agent reads. One statement, since a
hundred thousand agents ask every five minutes.
"""

from datetime import datetime
from typing import NamedTuple

from jobs import states
from jobs.prepared_statements import execute
from jobs.states import UNFINISHED, WaitingFor
from sources.domain.losses import Loss
from sources.domain.status import ProtectionStatus
from sources.models import order_parts
from sources.planning.names import AVAILABILITY, BACKUPS, KIND, subject_of

# Served by the index of the assignments' source and by `one_unfinished_record_per_subject`, one descent each.
STANDINGS = f"""
SELECT a.id, origin.name, origin.zone, schedule.enabled, s.paused_at IS NOT NULL, s.retired_at IS NOT NULL,
       p.on_battery, p.on_metered, a.failures, a.last_backup_at, a.next_backup_at, a.overdue_since, a.vanished_at,
       a.losses, a.last_contacted_at, p.recheck_after,
       a.proved_at, a.held_back_since IS NOT NULL OR a.drill_error <> '' OR COALESCE(c.damage, '[]') <> '[]'
         OR r.away_why <> '',
       b.status, b.waiting_for, b.queue
  FROM sources_assignment a
  JOIN sources_source s ON s.id = a.source_id
  JOIN sources_policy p ON p.id = a.policy_id
  JOIN sources_repository r ON r.id = p.repository_id
  JOIN schedules_schedule schedule ON schedule.origin_id = p.schedule_id
  JOIN jobs_origin origin ON origin.id = p.schedule_id
  LEFT JOIN sources_checkround c ON c.assignment_id = a.id
  LEFT JOIN LATERAL (
       SELECT status, waiting_for, queue
         FROM jobs_backlogrecord
        WHERE kind = '{KIND}' AND subject = 'assignment:' || a.id AND status IN {tuple(map(int, UNFINISHED))}
        LIMIT 1) AS b ON TRUE
 WHERE a.source_id = %(source)s
 ORDER BY origin.name
"""


class Standing(NamedTuple):
    """An assignment, its policy's rules for agents, and where its unfinished record is, if it has one."""

    id: int
    policy: str
    zone: str
    enabled: bool
    paused: bool
    retired: bool
    on_battery: bool
    on_metered: bool
    failures: int
    last_backup_at: datetime | None
    next_backup_at: datetime | None
    overdue_since: datetime | None
    vanished_at: datetime | None
    losses: int
    last_contacted_at: datetime | None
    recheck_after: float
    proved_at: datetime | None
    doubtful: bool
    status: int | None
    waiting_for: int | None
    queue: str | None

    @property
    def subject(self) -> str:
        return subject_of(self.id)

    @property
    def is_active(self) -> bool:
        """True if its source is neither paused nor retired, and its policy is enabled."""
        return self.enabled and not self.paused and not self.retired

    @property
    def waits_for_an_answer(self) -> bool:
        """True if a check-in may move its record. A settle of a running record may come at the same moment."""
        rechecks = self.status == states.Status.WAITING and self.waiting_for == WaitingFor.RECHECK
        return (
            rechecks
            or self.status == states.Status.RUNNING
            or (self.status == states.Status.READY and self.queue == AVAILABILITY)
        )

    @property
    def loss(self) -> Loss:
        forgiven = order_parts.forgiven_losses(self.last_backup_at)
        return Loss(self.losses, self.vanished_at, self.last_contacted_at, forgiven)

    def is_due(self, now: datetime) -> bool:
        """Never backed up, or its next-backup date has come."""
        return self.next_backup_at is None or self.next_backup_at <= now

    def protection(self, now: datetime) -> ProtectionStatus:
        """Its status, as `fleet.status.with_assignment_status` finds it from the rows."""
        holds = {
            ProtectionStatus.RETIRED: self.retired,
            ProtectionStatus.PAUSED: self.paused,
            ProtectionStatus.UNPROTECTED: not self.enabled,
            ProtectionStatus.FAILING: self.failures > 0,
            ProtectionStatus.NEVER: self.last_backup_at is None,
            ProtectionStatus.OVERDUE: self.overdue_since is not None,
            ProtectionStatus.DOUBTFUL: self.doubtful,
            ProtectionStatus.RUNNING: self.status == states.Status.RUNNING and self.queue == BACKUPS,
            ProtectionStatus.ABSENT: self.waiting_for == WaitingFor.RECHECK,
            ProtectionStatus.WAITING: self.status == states.Status.WAITING,
            ProtectionStatus.DUE: self.status == states.Status.READY or self.is_due(now),
        }
        return next((status for status, is_so in holds.items() if is_so), ProtectionStatus.PROTECTED)


def standings_of(source_id: int) -> list[Standing]:
    """The standings of all assignments of a source, by the name of their policy."""
    return [Standing(*row) for row in execute(STANDINGS, {"source": source_id}, prepare=True)]
