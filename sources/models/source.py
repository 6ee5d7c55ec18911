from datetime import datetime, timedelta
from typing import Any

from django.db import models, transaction
from django.db.models import Aggregate, Max, Min, OuterRef, Q, Subquery
from django.utils import timezone

from jobs.instants import readable
from sources.models import order_parts

STALE_AFTER = timedelta(hours=1)
"""The age from which its agent's report is no longer believed: agents check in every few minutes."""


SET_ASIDE = Q(paused_at__isnull=False) | Q(retired_at__isnull=False)


class SourceKind(models.TextChoices):
    """The kind of a source, which decides how it is reached and which engine copies it."""

    SFTP = "sftp", "SFTP host"
    S3 = "s3", "S3 bucket"
    WEBDAV = "webdav", "WebDAV share"
    LOCAL = "local", "local folder"
    POSTGRESQL = "postgresql", "PostgreSQL database"
    RCLONE = "rclone", "other storage that rclone reaches"
    IMAP = "imap", "mailbox (IMAP)"
    MARIADB = "mariadb", "MariaDB or MySQL database"
    SQLITE = "sqlite", "SQLite database"


FIRST_BYTES_PER_SECOND = 20_000_000.0
"""The guessed rate of a first backup: its place among others does not depend on it."""

ON_THIS_HOST = (SourceKind.LOCAL, SourceKind.SQLITE)
"""Kinds whose path is on the worker's host."""


class SourceQuerySet(models.QuerySet["Source"]):
    """Sets of sources."""

    def active(self) -> "SourceQuerySet":
        return self.filter(paused_at=None, retired_at=None)

    def update_unless_locked(self, **values: Any) -> int:
        """Update these sources, except those that another transaction has locked, as an import of a fleet does for a
        while. Returns the number of updated ones."""
        with transaction.atomic():
            free = list(self.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))
            return self.model._default_manager.filter(pk__in=free).update(**values)

    def with_protection(self) -> "SourceQuerySet":
        """Annotate `last_backup_at`, `proved_at`, `next_backup_at` and `failures` over all assignments of
        each source. Subqueries ask only for the sources of a page: a join took twice as long with 100,000 sources.
        """
        return self.annotate(
            last_backup_at=self._of_assignments(Max("last_backup_at")),
            proved_at=self._of_assignments(Max("proved_at")),
            next_backup_at=self._of_assignments(Min("next_backup_at")),
            failures=self._of_assignments(Max("failures")),
        )

    def _of_assignments(self, found: Aggregate) -> Subquery:
        related = self.model._meta.get_field("assignments").related_model._default_manager
        rows = related.filter(source=OuterRef("pk")).order_by().values("source")
        return Subquery(rows.annotate(_found=found).values("_found"))


class Source(models.Model):
    """A thing to protect: a laptop, server, share, bucket, folder or database.

    | kind | address, port | path | options |
    |---|---|---|---|
    | sftp | host name or address, 22 | directory | user |
    | s3 | endpoint URL | bucket or bucket/prefix | access_key_id, region, provider, plain_http: "allowed" |
    | webdav | URL | directory below it | user, vendor, plain_http: "allowed" |
    | local | none | absolute path of a directory | marker: a file that must exist in it |
    | mariadb | host or socket, 3306 | database | user, sslmode, sslrootcert |
    | sqlite | none | absolute path of its file | none |
    | postgresql | host or socket directory, 5432 | database | user, auth: "md5", sslmode, sslrootcert |
    | rclone | none | a path there | rclone's settings of the remote; plaintext: "allowed" |
    | imap | host name or address, 993 or 143 | a folder, or empty | user, tls, leave_out, sslrootcert |
    """

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=20, choices=SourceKind.choices)
    address = models.CharField(max_length=300, blank=True)
    port = models.PositiveIntegerField(null=True, blank=True)
    path = models.CharField(max_length=500, blank=True)
    real_path = models.TextField(
        blank=True,
        default="",
        editable=False,
        help_text=(
            "Where its path on the worker's host led when it was saved, links resolved; empty if that was not examined."
        ),
    )
    options = models.JSONField(default=dict, blank=True)
    secret = models.CharField(max_length=500, blank=True)
    secrets = models.JSONField(default=dict, blank=True)
    host_key = models.TextField(blank=True)
    mac_address = models.CharField(max_length=17, blank=True)
    wake_address = models.CharField(max_length=100, blank=True, default="255.255.255.255")
    wake_port = models.PositiveIntegerField(default=9)
    wake_allowed = models.BooleanField(null=True, blank=True)
    last_woken_at = models.DateTimeField(null=True, blank=True, editable=False)
    wakes = models.PositiveIntegerField(default=0, editable=False, help_text="Magic packets sent to it so far.")
    paused_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Instant since which it is paused."
    )
    paused_until = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="Instant at which it is resumed automatically; empty if a user resumes it.",
    )
    paused_why = models.TextField(blank=True, default="", editable=False)
    paused_by_user = models.BooleanField(
        default=False, db_default=False, editable=False, help_text="True if its user paused it, through its agent."
    )
    retired_at = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="Instant since which it is retired.",
    )
    checked_in_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Instant of the last check-in of its agent."
    )
    hostname = models.CharField(
        max_length=253, blank=True, default="", editable=False, help_text="Host name that its agent reports."
    )
    addresses = models.JSONField(
        default=list,
        blank=True,
        editable=False,
        help_text="Addresses by which it may be reached, by its last check-in.",
    )
    on_battery = models.BooleanField(null=True, editable=False, help_text="By its last check-in; empty if unknown.")
    metered = models.BooleanField(null=True, editable=False, help_text="By its last check-in; empty if unknown.")
    used_bytes = models.BigIntegerField(
        null=True,
        blank=True,
        editable=False,
        help_text="Bytes on its disks, by a check-in of its agent; empty if unknown.",
    )
    seen_hours = models.PositiveIntegerField(
        default=0, db_default=0, editable=False,
        help_text="Hours of the day in which its agent checked in: bit n for n o'clock UTC.",
    )  # fmt: skip
    clock_skew = models.FloatField(
        null=True, editable=False, help_text="Seconds by which its clock was ahead at its last check-in."
    )
    inserted_at = models.DateTimeField(auto_now_add=True)

    objects = SourceQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        permissions = [
            ("set_secret_of_source", "Can set where passwords are found, and store secrets"),
            ("restore_source", "Can restore sources, and look into their backups"),
            ("use_any_folder", "Can name any folder of the workers, to back up or to write to"),
        ]
        indexes = [
            # the sources that were woken a moment ago
            models.Index("last_woken_at", name="source_woken", condition=Q(last_woken_at__isnull=False)),
            # sources that are in no count of statuses but their own
            models.Index(
                "id", name="source_set_aside", condition=Q(paused_at__isnull=False) | Q(retired_at__isnull=False)
            ),
        ]
        constraints = [
            readable(
                "every_instant_of_a_source_is_readable",
                "last_woken_at",
                "paused_at",
                "paused_until",
                "retired_at",
                "checked_in_at",
                "inserted_at",
            )
        ]

    def __str__(self) -> str:
        return self.name

    def unwilling(self, now: datetime, *, on_battery: bool, on_metered: bool) -> str | None:
        """The reason why it should not be backed up although it is there, by what its agent reported, under a policy
        that allows backups on battery and on metered connections or not. None if it may.
        """
        if self.checked_in_at is None or now - self.checked_in_at > STALE_AFTER:
            return None
        if self.on_battery and not on_battery:
            return "it runs on battery, which its policy does not allow"
        if self.metered and not on_metered:
            return "its connection is metered, which its policy does not allow"
        return None

    @property
    def expected_first_seconds(self) -> float | None:
        """The seconds that its first backup is expected to take. None if nothing is known, or if sizes are not to
        count.
        """
        if self.used_bytes is None or not order_parts.in_force().sizes:
            return None
        return self.used_bytes / FIRST_BYTES_PER_SECOND

    @property
    def retired(self) -> bool:
        """True if its backups are no longer wanted, as a declared value."""
        return self.retired_at is not None

    @retired.setter
    def retired(self, value: bool) -> None:
        self.retired_at = (self.retired_at or timezone.now()) if value else None

    @property
    def exclusive_key(self) -> str:
        """The exclusive key that a backup record gets at its handoff, for at most one running backup per source."""
        return f"source:{self.pk}"


class AgentToken(models.Model):
    """A token by which the agent of a source proves its identity. Only a digest is kept: the token itself is shown
    once.

    A rotated token is a second row; the older one is revoked when the newer one is first used.
    """

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="tokens")
    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the token, in hexadecimal.")
    inserted_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(null=True, help_text="When it was last accepted.")
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index("source", name="agent_token_valid", condition=Q(revoked_at=None))]
        constraints = [readable("every_instant_of_an_agent_token_is_readable", "inserted_at", "used_at", "revoked_at")]

    def __str__(self) -> str:
        return f"token {self.pk} of {self.source}"


class EnrolmentCode(models.Model):
    """A code that an agent exchanges for a token, once, before it expires. Only a digest is kept."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="enrolment_codes")
    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the code, in hexadecimal.")
    inserted_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            readable("every_instant_of_an_enrolment_code_is_readable", "inserted_at", "expires_at", "used_at")
        ]

    def __str__(self) -> str:
        return f"enrolment code {self.pk} of {self.source}"
