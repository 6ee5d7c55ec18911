from django.db import models
from django.db.models import F
from django.db.models.functions import Now

from jobs.instants import readable


class Verb(models.TextChoices):
    """The kind of change of a row. *Did*: an action that no row shows, such as *back up now*; its text names it."""

    CREATED = "created", "created"
    CHANGED = "changed", "changed"
    DELETED = "deleted", "deleted"
    DID = "did", "did"


class AuditEntry(models.Model):
    """A change of one row, or an action of a user. Written by triggers, and by `entries.note`.

    `before` and `after` hold the columns that differ; for a secret, only that it differs.
    """

    at = models.DateTimeField(db_default=Now())
    who = models.CharField(max_length=200, help_text="An account, a system user and its host, or a database role.")
    via = models.CharField(max_length=200, help_text="Web, API, a command, or SQL.")
    about = models.CharField(max_length=100, help_text="The table, such as `sources.policy`.")
    row_id = models.CharField(
        max_length=200, blank=True, default="", help_text="Id of the row; empty if there is none, or many."
    )
    name = models.CharField(max_length=200, blank=True, default="", help_text="Name of the row, as it was then.")
    verb = models.CharField(max_length=10, choices=Verb.choices)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    text = models.TextField(blank=True, default="")

    class Meta:
        db_table = "audit_entry"
        verbose_name_plural = "audit"
        default_permissions = ("view",)
        constraints = [readable("every_instant_of_an_audit_entry_is_readable", "at")]
        indexes = [
            # the history of a row
            models.Index("about", "row_id", F("id").desc(), name="audit_of_a_row"),
            # since when, and pruning
            models.Index("at", name="audit_by_instant"),
        ]

    def __str__(self) -> str:
        return f"{self.name or self.about}: {self.verb}"
