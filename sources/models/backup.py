"""Work that is done: backups, how far they are, their copies and checks, restores, and backups of the
scheduler itself.
"""

from django.db import models

from jobs.instants import readable
from sealing.fields import SealedField
from sources.models.assignment import Assignment
from sources.models.repository import Repository


class Backup(models.Model):
    """One completed run: the files it copied, where to, and how long it took."""

    assignment = models.ForeignKey(Assignment, on_delete=models.CASCADE, related_name="backups")
    repository = models.ForeignKey(Repository, on_delete=models.PROTECT, related_name="backups")
    record_id = models.BigIntegerField(
        null=True,
        help_text=(
            "The backlog record that it ran as, which may have been pruned since. None if its result "
            "was lost, and its point was found in the repository."
        ),
    )
    attempt = models.IntegerField()
    engine = models.CharField(max_length=20)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    size = models.BigIntegerField(help_text="Bytes that the backup protects.")
    files = models.BigIntegerField(help_text="Files that the backup protects.")
    new = models.BigIntegerField(null=True, help_text="Files that the last backup did not have.")
    changed = models.BigIntegerField(null=True, help_text="Files that differ from those of the last backup.")
    unchanged = models.BigIntegerField(null=True, help_text="Files that are the same as in the last backup.")
    removed = models.BigIntegerField(null=True, help_text="Files of the last backup that are gone.")
    read = models.BigIntegerField(null=True, help_text="Bytes read from the source.")
    added = models.BigIntegerField(null=True, help_text="Bytes added to the repository.")
    tables = models.BigIntegerField(null=True, help_text="Tables of a database.")
    rows = models.BigIntegerField(null=True, help_text="Rows in all tables of a database.")
    snapshot = models.CharField(max_length=500, help_text="The name of the point that it made, in the repository.")
    warnings = models.JSONField(blank=True, default=list, help_text="The first 20 warnings.")
    not_kept = models.JSONField(
        blank=True,
        default=list,
        db_default=models.Value([], models.JSONField()),
        help_text="What the source had and no backup of its kind keeps, such as sockets.",
    )

    class Meta:
        ordering = ["-ended_at"]
        constraints = [
            # a settle that is repeated after an unknown COMMIT writes no second backup
            models.UniqueConstraint("record_id", "attempt", name="one_backup_per_attempt"),
            readable("every_instant_of_a_backup_is_readable", "started_at", "ended_at"),
        ]
        indexes = [
            # the growth of a day
            models.Index("ended_at", name="backup_ended"),
            # the lists of the admin and the API, which page through thousands of ids, and read no row for them
            models.Index(fields=["ended_at", "id"], include=["assignment"], name="backup_by_end"),
            models.Index(fields=["assignment", "ended_at", "id"], name="backup_of_assignment_by_end"),
            models.Index(fields=["repository", "ended_at", "id"], name="backup_in_repository_by_end"),
            # the search for a point
            models.Index(fields=["snapshot"], opclasses=["varchar_pattern_ops"], name="backup_snapshot"),
        ]

    def __str__(self) -> str:
        return f"{self.assignment.source} at {self.started_at:%Y-%m-%d %H:%M:%S %Z}"


class ManifestDigest(models.Model):
    """The SHA-256 of a manifest that we wrote, stored before the manifest was. A point with another one, or none here,
    is foreign (`storage.points.known`). Two of one point: its manifest is being written again.
    """

    assignment = models.ForeignKey(Assignment, on_delete=models.CASCADE, related_name="manifest_digests")
    repository = models.ForeignKey(Repository, on_delete=models.CASCADE, related_name="+")
    point = models.CharField(max_length=30)
    sha256 = models.CharField(max_length=64)
    accepted = models.BooleanField(default=False, help_text="A user has accepted it.")

    class Meta:
        constraints = [
            models.UniqueConstraint("assignment", "repository", "point", "sha256", name="a_digest_is_kept_once")
        ]

    def __str__(self) -> str:
        return f"{self.point} of {self.assignment}"


class Progress(models.Model):
    """The progress of a running backup. Overwritten a few times a second, gone when the attempt is settled."""

    record_id = models.BigIntegerField(primary_key=True)
    attempt = models.IntegerField()
    bytes_done = models.BigIntegerField(default=0)
    bytes_total = models.BigIntegerField(default=0)
    files_done = models.BigIntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "progress"
        constraints = [readable("every_instant_of_a_progress_is_readable", "updated_at")]

    def __str__(self) -> str:
        return f"record {self.record_id}: {self.bytes_done} of {self.bytes_total} bytes"


class Copy(models.Model):
    """Copies of an assignment's points in a second repository, as the policy's `copy_to` wants them, or wanted them
    once.
    """

    assignment = models.ForeignKey(Assignment, on_delete=models.CASCADE, related_name="copies")
    repository = models.ForeignKey(Repository, on_delete=models.PROTECT, related_name="copies")
    planned_at = models.DateTimeField(help_text="When its last record was put on the backlog.")
    copied_at = models.DateTimeField(
        null=True, help_text="Instant at which it last had all points; empty if it never did."
    )
    as_of = models.DateTimeField(null=True, help_text="The start of the last backup at that time.")
    points = models.JSONField(default=list, help_text="Names of the points in it.")
    came = models.IntegerField(
        default=0, help_text="Points that came since some were last removed: no more are then removed."
    )
    thinned_by = models.JSONField(
        null=True, help_text="Rules by which they were removed; under others there is no such limit."
    )
    size = models.BigIntegerField(default=0, help_text="Bytes that the last run copied.")
    error = models.TextField(
        blank=True, default="", help_text="Reason why the last run failed, or what is wrong with it."
    )
    incomplete = models.JSONField(
        blank=True,
        default=dict,
        db_default=models.Value({}, models.JSONField()),
        help_text="Points in it that lack files, or have them as of an earlier point, since a server refused them; "
        "with the number of such files, and of the newest point the first 20 warnings.",
    )

    class Meta:
        verbose_name_plural = "copies"
        constraints = [
            models.UniqueConstraint("assignment", "repository", name="one_copy_per_assignment_and_repository"),
            readable("every_instant_of_a_copy_is_readable", "planned_at", "copied_at", "as_of"),
        ]

    def __str__(self) -> str:
        return f"copy of {self.assignment} in {self.repository}"


class CheckRound(models.Model):
    """The round of checks of an assignment in its repository: how far its contents were read and compared with its
    manifests, and what is damaged.

    `part` and `after`: where the next run reads on (`storage.points.checking`). Both are empty if it begins a new
    round.
    """

    assignment = models.OneToOneField(
        Assignment, on_delete=models.CASCADE, related_name="check_round", primary_key=True
    )
    planned_at = models.DateTimeField(help_text="When its last record was put on the backlog.")
    began_at = models.DateTimeField(null=True, help_text="Beginning of this round; empty if none is under way.")
    repository = models.ForeignKey(
        Repository, on_delete=models.SET_NULL, null=True, related_name="+", help_text="Where the next run continues."
    )
    part = models.CharField(max_length=40, blank=True, default="")
    after = models.TextField(blank=True, default="")
    total = models.BigIntegerField(default=0, help_text="Bytes of the round.")
    read = models.BigIntegerField(default=0, help_text="Bytes read so far.")
    checked_at = models.DateTimeField(null=True, help_text="When anything was last read.")
    ended_at = models.DateTimeField(null=True, help_text="When everything had been read for the last time.")
    damage = models.JSONField(default=list, help_text="Files of points that differ from their manifests.")

    class Meta:
        constraints = [
            readable("every_instant_of_a_check_round_is_readable", "planned_at", "began_at", "checked_at", "ended_at")
        ]

    def __str__(self) -> str:
        return f"check of {self.assignment}"


class To(models.TextChoices):
    """The place to which a restore writes."""

    FOLDER = "folder", "a folder of the worker's host"
    SOURCE = "source", "back to the source"
    DATABASE = "database", "a new database at the source"


class RestoreOutcome(models.TextChoices):
    """The end of a restore. One that is not over has none."""

    SUCCEEDED = "succeeded", "succeeded"
    INCOMPLETE = "incomplete", "incomplete: some files were not restored"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"


class Restore(models.Model):
    """A restore that a user or operator asked for, and its result. It runs as a record of the kind `restore`."""

    assignment = models.ForeignKey(Assignment, on_delete=models.CASCADE, related_name="restores")
    point = models.CharField(max_length=30, help_text="Name of the point.")
    repository = models.ForeignKey(
        Repository,
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        help_text="Repository of the point; none if it was deleted.",
    )
    paths = models.JSONField(default=list, help_text="Files and folders of the source; all if there are none.")
    to = models.CharField(max_length=10, choices=To.choices, help_text="Target of the restore.")
    target = models.CharField(
        max_length=500, blank=True, help_text="The folder, in the source or on the worker's host; the new database."
    )
    overwrite = models.BooleanField(default=False, help_text="True if files that differ are replaced.")
    foreign = models.BooleanField(default=False, help_text="True if the point may be foreign.")
    dry_run = models.BooleanField(default=False, help_text="True if only the target was examined, and nothing written.")
    user = models.CharField(
        max_length=100,
        blank=True,
        default="",
        help_text="The account of the server that restores; the source's if empty.",
    )
    secret = models.CharField(
        max_length=500, blank=True, default="", help_text="Where its password is found, until the restore has ended."
    )
    trusted = models.BooleanField(
        default=False, help_text="True if the dump was allowed to run with all rights of the account that restored it."
    )
    roles_with_rights = models.BooleanField(
        default=False, help_text="True if roles got their rights over the data of others, too."
    )
    asked_by = models.CharField(max_length=150)
    asked_at = models.DateTimeField()
    record_id = models.BigIntegerField(
        null=True, help_text="The backlog record that it runs as; it may have been pruned."
    )
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=12, blank=True, choices=RestoreOutcome.choices)
    error = models.TextField(blank=True, default="")
    files = models.BigIntegerField(null=True, help_text="Files that were restored.")
    size = models.BigIntegerField(null=True, help_text="Bytes that were restored.")
    present = models.BigIntegerField(null=True, help_text="Files that were there already, the same as in the backup.")
    not_set = models.JSONField(default=list, help_text="Owners, modes, times and attributes that could not be set.")
    old = models.JSONField(default=list, help_text="Paths that the point has as of an earlier one.")
    missing = models.JSONField(default=list, help_text="Paths that are not in the point, and why: the first 100.")
    failed = models.JSONField(default=list, help_text="Files that were not restored, and why: the first 100.")

    class Meta:
        ordering = ["-asked_at"]
        constraints = [readable("every_instant_of_a_restore_is_readable", "asked_at", "ended_at")]

    def __str__(self) -> str:
        return f"{self.assignment.source} as of {self.point}"

    @property
    def terms(self) -> dict[str, bool]:
        """The terms that were allowed for it (`engines.restores.terms`)."""
        return {"trusted": self.trusted, "roles_with_rights": self.roles_with_rights}


class SelfBackup(models.Model):
    """A day's backup of the scheduler itself. `ended_at` is empty as long as it has not succeeded."""

    day = models.DateField(unique=True, help_text="Day in UTC.")
    repository = models.ForeignKey(Repository, null=True, on_delete=models.SET_NULL, related_name="+")
    ended_at = models.DateTimeField(null=True)
    file = models.CharField(max_length=500, blank=True, default="", help_text="Its path in the repository.")
    size = models.BigIntegerField(null=True, help_text="Size in bytes.")

    class Meta:
        ordering = ["-day"]
        verbose_name = "backup of the scheduler"
        verbose_name_plural = "backups of the scheduler"
        constraints = [readable("every_instant_of_a_self_backup_is_readable", "ended_at", days=("day",))]

    def __str__(self) -> str:
        return f"the scheduler on {self.day}"


class RecoveryKey(models.Model):
    """The key that opens the scheduler's own backups. There is one at most."""

    recipient = models.CharField(max_length=200)
    age_identity = models.TextField(help_text="Key of age, sealed by the passphrase.")
    sealed_passphrase = SealedField(help_text="Sealed with a key derived from SECRET_KEY.")
    printed_at = models.DateTimeField(null=True, help_text="Instant at which a user last had the passphrase printed.")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="one_recovery_key"),
            readable("every_instant_of_a_recovery_key_is_readable", "printed_at"),
        ]

    def __str__(self) -> str:
        return "the key of the scheduler's own backups"
