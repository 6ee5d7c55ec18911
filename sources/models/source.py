from datetime import datetime, timedelta

from django.db import models
from django.utils import timezone

from sources.models.querysets import SourceQuerySet

STALE_AFTER = timedelta(hours=1)
"""An older report of its agent is no longer believed: agents announce themselves every few minutes."""


class SourceKind(models.TextChoices):
    """What a source is, and so how it is reached and which engine copies it."""

    SFTP = "sftp", "SFTP host"
    S3 = "s3", "S3 bucket"
    WEBDAV = "webdav", "WebDAV share"
    LOCAL = "local", "local folder"
    POSTGRESQL = "postgresql", "PostgreSQL database"
    RCLONE = "rclone", "other storage that rclone reaches"
    IMAP = "imap", "mailbox (IMAP)"
    MARIADB = "mariadb", "MariaDB or MySQL database"
    SQLITE = "sqlite", "SQLite database"


ON_THIS_HOST = (SourceKind.LOCAL, SourceKind.SQLITE)
"""Kinds whose path is one of the worker's host."""


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
        null=True, blank=True, editable=False, help_text="Since when a person wants no backups of it."
    )
    paused_why = models.TextField(blank=True, default="", editable=False)
    retired_at = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="Since when a person wants no backups of it any more.",
    )
    snoozed_until = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="No backups of it before: its user asked for that."
    )
    checked_in_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When its agent last said that it is here."
    )
    hostname = models.CharField(
        max_length=253, blank=True, default="", editable=False, help_text="As its agent calls it."
    )
    addresses = models.JSONField(
        default=list, blank=True, editable=False, help_text="Where it may be reached, by its last check-in."
    )
    on_battery = models.BooleanField(null=True, editable=False, help_text="By its last check-in; empty: not said.")
    metered = models.BooleanField(null=True, editable=False, help_text="By its last check-in; empty: not said.")
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

    def __str__(self) -> str:
        return self.name

    def unwilling(self, now: datetime, *, on_battery: bool, on_metered: bool) -> str | None:
        """Why it should not be backed up although it is there, by what its agent reported, under a policy that allows
        backups on battery and on metered connections or not; None: it may."""
        if self.checked_in_at is None or now - self.checked_in_at > STALE_AFTER:
            return None
        if self.on_battery and not on_battery:
            return "it runs on battery, which its policy does not allow"
        if self.metered and not on_metered:
            return "its connection is metered, which its policy does not allow"
        return None

    @property
    def retired(self) -> bool:
        """As it is declared: whether no backups of it are wanted any more."""
        return self.retired_at is not None

    @retired.setter
    def retired(self, value: bool) -> None:
        self.retired_at = (self.retired_at or timezone.now()) if value else None

    @property
    def exclusive_key(self) -> str:
        """At most one running backup per source: the key that a backup record gets at its handoff."""
        return f"source:{self.pk}"
