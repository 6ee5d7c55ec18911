"""The backlog records: their fields, the sets that are asked for, the constraints that hold, and the indexes."""

from datetime import datetime
from typing import Any, Self

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from jobs import priorities
from jobs.instants import readable
from jobs.models.policies import Breaker, Origin, RetryPolicy
from jobs.models.worker import Worker
from jobs.states import FINISHED, UNFINISHED, Status, WaitingFor

CLAIM_ORDER = (
    F("priority").desc(),
    F("rank_day").asc(nulls_first=True),
    F("tried_at").asc(nulls_first=True),
    F("expected_seconds").asc(nulls_first=True),
    F("id").asc(),
)
"""ProactiveAI order. The index `backlog_claim_order` has exactly these keys, and `jobs/claiming.py` sorts by them."""


class BacklogRecordQuerySet(models.QuerySet["BacklogRecord"]):
    """Sets of backlog records. docs/lifecycle.md has the states."""

    def waiting(self) -> Self:
        return self.filter(status=Status.WAITING)

    def ready(self) -> Self:
        return self.filter(status=Status.READY)

    def running(self) -> Self:
        return self.filter(status=Status.RUNNING)

    def unfinished(self) -> Self:
        return self.filter(status__in=UNFINISHED)

    def finished(self) -> Self:
        return self.filter(status__in=FINISHED)

    def open_at(self, now: datetime) -> Self:
        """Records whose window has not closed by `now`."""
        return self.filter(Q(closes_at=None) | Q(closes_at__gt=now))

    def end(self, status: Status, now: datetime, **also: Any) -> int:
        """Finish these records, which are locked and do not run. Returns how many."""
        return self.update(status=status, finished_at=now, waiting_for=None, exclusive_key=None, breaker=None, **also)

    def in_claim_order(self) -> Self:
        """ProactiveAI order, as `jobs/claiming.py` claims."""
        return self.order_by(*CLAIM_ORDER)


class BacklogRecord(models.Model):
    """One unit of work on the backlog. docs/lifecycle.md has its states.

    Another program may insert a row of kind, queue, subject and payload alone: it is ready.
    """

    kind = models.CharField(max_length=50)
    queue = models.CharField(max_length=50)
    subject = models.CharField(max_length=200, help_text="Its subject; one unfinished record per kind and subject.")
    exclusive_key = models.CharField(  # noqa: DJ001 - unique where there is one
        max_length=200, null=True, help_text="At most one running record per key. Set by the handoff."
    )
    payload = models.JSONField(default=dict, db_default={}, help_text="Input of its handler; `title` names it.")
    status = models.SmallIntegerField(choices=Status.choices, default=Status.READY, db_default=Status.READY)
    waiting_for = models.SmallIntegerField(choices=WaitingFor.choices, null=True)

    inserted_at = models.DateTimeField(db_default=Now())
    run_after = models.DateTimeField(db_default=Now(), help_text="Earliest instant at which it is considered.")
    closes_at = models.DateTimeField(null=True, help_text="End of its window, from which on it is not claimed.")
    finished_at = models.DateTimeField(null=True)

    priority = models.IntegerField(default=0, db_default=0)
    due_day = models.DateField(null=True, help_text="Day on which it is due, in its zone; empty if it never succeeded.")
    rank_day = models.DateField(
        null=True, help_text="Day by which it is ranked, at first its due_day; empty ranks first."
    )
    tried_at = models.DateTimeField(null=True, help_text="Last contact without an answer, or last failure.")
    expected_seconds = models.FloatField(null=True, help_text="Duration of its last success.")

    failures = models.IntegerField(default=0, db_default=0)
    first_failure_at = models.DateTimeField(null=True)
    last_failure_at = models.DateTimeField(null=True)
    last_error = models.TextField(blank=True, default="", db_default="")

    attempt = models.IntegerField(default=0, db_default=0, help_text="The fencing token: incremented by each claim.")
    started_at = models.DateTimeField(null=True, help_text="When its running attempt was claimed.")
    leased_by = models.ForeignKey(
        Worker, null=True, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    lease_token = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(
        null=True,
        help_text="Instant at which a user cancelled it while it ran; it ends as cancelled unless it succeeds.",
    )

    origin = models.ForeignKey(Origin, null=True, on_delete=models.SET_NULL, db_index=False, related_name="records")
    trigger_at = models.DateTimeField(null=True, help_text="The trigger that emitted it; empty if a user asked for it.")
    retry_policy = models.ForeignKey(
        RetryPolicy,
        null=True,
        on_delete=models.PROTECT,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    lane = models.IntegerField(default=0, db_default=0)
    breaker = models.ForeignKey(
        Breaker,
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
        help_text="The breaker that it waits for, if it waits for one.",
    )

    objects = BacklogRecordQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                "kind",
                "subject",
                name="one_unfinished_record_per_subject",
                condition=Q(status__in=UNFINISHED),
            ),
            models.UniqueConstraint(
                "exclusive_key",
                name="one_running_record_per_exclusive_key",
                condition=Q(status=Status.RUNNING, exclusive_key__isnull=False),
            ),
            models.UniqueConstraint(
                "origin",
                "trigger_at",
                "subject",
                name="one_record_per_trigger_and_subject",
                # also without a trigger, where it unites nothing: an origin that is removed looks for its records
                condition=Q(origin__isnull=False),
            ),
            models.CheckConstraint(
                name="running_iff_leased",
                condition=Q(
                    status=Status.RUNNING,
                    leased_by__isnull=False,
                    lease_token__isnull=False,
                    lease_expires_at__isnull=False,
                    started_at__isnull=False,
                )
                | Q(
                    ~Q(status=Status.RUNNING),
                    leased_by__isnull=True,
                    lease_token__isnull=True,
                    lease_expires_at__isnull=True,
                ),
            ),
            models.CheckConstraint(
                name="finished_iff_finished_at",
                condition=Q(status__in=FINISHED, finished_at__isnull=False)
                | Q(status__in=UNFINISHED, finished_at__isnull=True),
            ),
            models.CheckConstraint(
                name="waiting_iff_it_says_what_for",
                condition=Q(status=Status.WAITING, waiting_for__isnull=False)
                | Q(~Q(status=Status.WAITING), waiting_for__isnull=True),
            ),
            models.CheckConstraint(
                name="priority_within_limits",
                condition=Q(priority__gte=priorities.LEAST, priority__lte=priorities.GREATEST),
            ),
            models.CheckConstraint(
                name="failed_at_iff_failures",
                condition=Q(failures__gt=0)
                | Q(failures=0, last_failure_at__isnull=True, first_failure_at__isnull=True),
            ),
            readable(
                "every_instant_of_a_record_is_readable",
                *("inserted_at", "run_after", "closes_at", "finished_at", "tried_at", "first_failure_at"),
                *("last_failure_at", "started_at", "lease_expires_at", "cancel_requested_at", "trigger_at"),
                days=("due_day", "rank_day"),
            ),
        ]
        indexes = [
            # the claim: one queue, one lane, in order, no sort
            models.Index("queue", "lane", *CLAIM_ORDER, name="backlog_claim_order", condition=Q(status=Status.READY)),
            # tick: promote due records
            models.Index("run_after", name="backlog_waiting_until", condition=Q(status=Status.WAITING)),
            # sweeps: the newest first
            models.Index(
                F("inserted_at").desc(),
                name="backlog_swept",
                condition=Q(status=Status.WAITING, waiting_for=WaitingFor.SWEEP),
            ),
            # breakers: the next trial, and all that wait when one closes
            models.Index(
                "breaker",
                *CLAIM_ORDER,
                name="backlog_held",
                condition=Q(status=Status.WAITING, waiting_for=WaitingFor.BREAKER),
            ),
            # tick: close windows
            models.Index(
                "closes_at",
                name="backlog_ready_closes",
                condition=Q(status=Status.READY, closes_at__isnull=False),
            ),
            # tick: rescue; also every query for running records
            models.Index("lease_expires_at", name="backlog_lease_expires", condition=Q(status=Status.RUNNING)),
            # the throttles: records in flight in each lane, without those that are only asked; the table is not read
            models.Index("lane", "queue", name="backlog_running_lane", condition=Q(status=Status.RUNNING) & ~Q(lane=0)),
            # the gate: who else is ready, running or waiting under this key
            models.Index("exclusive_key", name="backlog_exclusive_key", condition=Q(exclusive_key__isnull=False)),
            # dead letters: the newest first
            models.Index("finished_at", "id", name="backlog_failed", condition=Q(status=Status.FAILED)),
            # events that were not delivered, among all that were
            models.Index("finished_at", "id", name="backlog_cancelled", condition=Q(status=Status.CANCELLED)),
            # the Done list and pruning
            models.Index("finished_at", name="backlog_done", condition=Q(finished_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.payload.get('title') or self.subject} (#{self.pk})"
