from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.instants import readable
from sources.domain.losses import Loss
from sources.models import order_parts
from sources.models.policy import Policy
from sources.models.source import Source

IN_TROUBLE = (
    Q(failures__gt=0)
    | Q(last_backup_at=None)
    | Q(overdue_since__isnull=False)
    | Q(held_back_since__isnull=False)
    | ~Q(drill_error="")
)


class AssignmentQuerySet(models.QuerySet["Assignment"]):
    """Sets of assignments."""

    def active(self) -> "AssignmentQuerySet":
        """Assignments whose source is neither paused nor retired, under a policy that is enabled."""
        return self.filter(source__paused_at=None, source__retired_at=None, policy__schedule__enabled=True)


class Assignment(models.Model):
    """A source under a policy: the facts that the next decision about it needs.

    Written by machines, except which source is under which policy. `last_backup_*` are facts of the last success only.
    """

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="assignments")
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="assignments")
    next_backup_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="First trigger after the start of its last success."
    )
    last_backup_at = models.DateTimeField(null=True, blank=True, editable=False, help_text="When it started.")
    last_backup_for = models.FloatField(null=True, blank=True, editable=False, help_text="Its duration in seconds.")
    last_backup_size = models.BigIntegerField(null=True, blank=True, editable=False, help_text="In bytes.")
    last_contacted_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When the source last answered."
    )
    directory = models.CharField(
        max_length=300, blank=True, editable=False, help_text="Folder of its backups in the repository."
    )
    failures = models.IntegerField(default=0, editable=False, help_text="Consecutive, since the last success.")
    first_failure_at = models.DateTimeField(null=True, blank=True, editable=False, help_text="Last of those failures.")
    room_lacked = models.BigIntegerField(
        null=True, blank=True, editable=False,
        help_text="Bytes that were free when a backup was ended because it needed more; empty if none was "
        "since its last success.",
    )  # fmt: skip

    skips = models.IntegerField(
        default=0,
        editable=False,
        help_text="Consecutive openings that it was left out of because it would not have fitted.",
    )
    losses = models.IntegerField(
        default=0, editable=False, help_text="Consecutive losses in mid-backup, since the last success."
    )
    vanished_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Instant of the last such loss since the last success."
    )
    seen_hours = models.PositiveIntegerField(
        default=0, db_default=0, editable=False,
        help_text="Hours of the day in which its source answered or was copied: bit n for n o'clock UTC.",
    )  # fmt: skip
    asked_for_at = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="Instant at which a user asked for a backup now, while it was being asked.",
    )
    overdue_since = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Instant since which it has not been backed up for too long."
    )
    held_back_since = models.DateTimeField(
        null=True, blank=True, editable=False,
        help_text="Instant since which none of its points is removed: its last backup looked wrong, and no "
        "user has accepted it yet.",
    )  # fmt: skip
    held_back_why = models.TextField(blank=True, default="", editable=False)
    to_copy_since = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Instant since which one of its points is missing in its copy."
    )
    proved_at = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="Instant at which a drill last restored from it as its manifest says.",
    )
    proved_point = models.CharField(max_length=30, blank=True, default="", editable=False)
    drill_planned_at = models.DateTimeField(null=True, blank=True, editable=False)
    drill_error = models.TextField(
        blank=True, default="", editable=False, help_text="Reason why the last drill proved nothing; empty if it did."
    )
    drill_facts = models.JSONField(
        blank=True, default=dict, editable=False, help_text="Result of the last drill: files, bytes, rows by table."
    )
    inserted_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = AssignmentQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint("source", "policy", name="one_assignment_per_source_and_policy"),
            readable(
                "every_instant_of_an_assignment_is_readable",
                "next_backup_at",
                "last_backup_at",
                "last_contacted_at",
                "first_failure_at",
                "vanished_at",
                "asked_for_at",
                "overdue_since",
                "held_back_since",
                "to_copy_since",
                "proved_at",
                "drill_planned_at",
                "inserted_at",
            ),
        ]
        indexes = [
            # the emitter: the due assignments of a policy
            models.Index("policy", "next_backup_at", name="assignment_due"),
            # each minute: the assignments to copy; it has no others
            models.Index("to_copy_since", name="assignment_to_copy", condition=Q(to_copy_since__isnull=False)),
            # each minute: the assignments for which there is too little room; it has no others
            models.Index("policy", name="assignment_lacks_room", condition=Q(room_lacked__isnull=False)),
            # pages: assignments that need an operator; it contains no protected ones
            models.Index("source", "policy", name="assignment_in_trouble", condition=IN_TROUBLE),
        ]

    def __str__(self) -> str:
        return f"{self.source} under {self.policy}"

    @property
    def loss(self) -> Loss:
        forgiven = order_parts.forgiven_losses(self.last_backup_at)
        return Loss(self.losses, self.vanished_at, self.last_contacted_at, forgiven)

    @property
    def wake_hours(self) -> int:
        """Hours of the day in which its source was ever there. 0 if none is known, or if hours are not to count."""
        return self.seen_hours | self.source.seen_hours if order_parts.in_force().hours else 0

    @property
    def expected_seconds(self) -> float | None:
        """The seconds that its next backup is expected to take, for the claim order: as long as the last one, or as
        long as the contents of its source suggest.
        """
        return self.source.expected_first_seconds if self.last_backup_for is None else self.last_backup_for


class Pause(models.Model):
    """A time in which no backups of a source were wanted: a pause, or the time for which it was retired, once that is
    over. Or a time of a policy: it was disabled.

    The present state is in the source and in the schedule of the policy; days in the past are judged by these rows.
    """

    source = models.ForeignKey(Source, null=True, on_delete=models.CASCADE, related_name="pauses")
    policy = models.ForeignKey(Policy, null=True, on_delete=models.CASCADE, related_name="pauses")
    since = models.DateTimeField()
    until = models.DateTimeField(null=True, help_text="Until a user resumes it if empty.")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(source=None, policy__isnull=False) | Q(source__isnull=False, policy=None),
                name="pause_of_a_source_or_a_policy",
            ),
            models.UniqueConstraint("source", name="one_open_pause_per_source", condition=Q(until=None)),
            models.UniqueConstraint("policy", name="one_open_pause_per_policy", condition=Q(until=None)),
            readable("every_instant_of_a_pause_is_readable", "since", "until"),
        ]

    def __str__(self) -> str:
        return f"{self.source or self.policy} since {self.since:%Y-%m-%d %H:%M} UTC"
