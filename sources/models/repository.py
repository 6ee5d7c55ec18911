from uuid import uuid4

from django.db import models
from django.db.models import Q

from jobs.instants import readable


class Format(models.TextChoices):
    """The format in which a repository is written. It is chosen when one is made."""

    RCLONE = "rclone", "rclone: plain files, or rclone's encryption"
    RESTIC = "restic", "restic: deduplicated and encrypted snapshots"


class TrialKind(models.TextChoices):
    """The way to try a repository that was saved over the web, where no edit waits for a server."""

    USUAL = "usual", "as usual"
    FORCED = "forced", "also where other files are, or its points are not"


class Repository(models.Model):
    """A place for backups: a directory on this host (or a mounted share), or a folder of an rclone remote.

    `remote`: rclone's settings for the remote, such as {"type": "s3", …}; empty for a directory. `secrets`: option of
    the remote → where its value is found. `key`: where the key of an encrypted repository is found. `identity` is also
    stored in the repository, in `repository.json`.
    """

    name = models.CharField(max_length=100, unique=True)
    format = models.CharField(max_length=10, choices=Format.choices, default=Format.RCLONE)
    remote = models.JSONField(default=dict, blank=True)
    location = models.CharField(max_length=500)
    secrets = models.JSONField(default=dict, blank=True)
    encrypted = models.BooleanField(default=False)
    key = models.CharField(max_length=500, blank=True)
    identity = models.UUIDField(default=uuid4, editable=False, unique=True)
    by_superuser = models.BooleanField(
        default=True,
        db_default=True,
        editable=False,
        help_text=(
            "True if a superuser gave it its name and place, so that the scheduler itself may be backed up there."
        ),
    )
    made_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text=(
            "Instant at which its first backup ended there; since then it names its installation, or its disk is away."
        ),
    )
    pruned_at = models.DateTimeField(
        null=True, editable=False, help_text="Instant at which restic last deleted data that no point holds."
    )
    room_free = models.BigIntegerField(
        null=True, editable=False, help_text="Bytes; empty if not known, such as for a remote."
    )
    room_total = models.BigIntegerField(null=True, editable=False)
    room_seen_at = models.DateTimeField(null=True, editable=False, help_text="When its last backup or copy ended.")
    looked_at = models.DateTimeField(
        null=True, editable=False, help_text="When the last round of looks for the newest points there began."
    )
    looked_to = models.BigIntegerField(
        default=0, editable=False, help_text="The assignment that this round has reached; 0 if none is under way."
    )
    away_since = models.DateTimeField(
        null=True,
        editable=False,
        help_text="Instant at which a look first missed it, or it was moved; empty if it was seen since.",
    )
    away_why = models.TextField(
        blank=True, default="", db_default="", editable=False,
        help_text="Reason why it is not where it was; empty if it is, or if that is not known yet.",
    )  # fmt: skip
    untried = models.CharField(
        max_length=10, choices=TrialKind.choices, blank=True, default="", db_default="", editable=False,
        help_text="How it is to be tried after it was saved over the web; empty if it was.",
    )  # fmt: skip
    tried = models.TextField(
        blank=True, default="", db_default="", editable=False,
        help_text="Findings of the last try that came after it was saved over the web, for users.",
    )  # fmt: skip

    new_key: str | None = None
    """The key of a repository that is being made, to be shown once."""

    lacks = ""
    """The contents that are missing in the place that it was moved to by force."""

    notices: list[str] = []
    """Notices of its trial, for the user who edits it."""

    class Meta:
        verbose_name_plural = "repositories"
        permissions = [("export_key_of_repository", "Can read the key of an encrypted repository")]
        constraints = [
            models.CheckConstraint(
                condition=Q(encrypted=False) ^ ~Q(key=""), name="repository_has_a_key_iff_encrypted"
            ),
            models.CheckConstraint(
                condition=~Q(format=Format.RESTIC) | Q(encrypted=True), name="restic_is_always_encrypted"
            ),
            readable(
                "every_instant_of_a_repository_is_readable",
                "made_at",
                "pruned_at",
                "room_seen_at",
                "away_since",
                "looked_at",
            ),
        ]

    def __str__(self) -> str:
        return self.name
