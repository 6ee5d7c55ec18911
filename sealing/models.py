"""The table of stored secrets. It keeps its app label, and so its name, permissions and address in the admin."""

from django.db import models
from django.db.models.functions import Now

from jobs.instants import readable
from sealing.fields import SealedField


class StoredSecret(models.Model):
    """A secret that is stored here, sealed: `stored:NAME` refers to it. It is never shown again.

    An account needs no extra permission to store one, only the one to set references.
    """

    name = models.CharField(max_length=100, unique=True)
    sealed = SealedField(editable=False)
    changed_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        app_label = "delivery"
        ordering = ["name"]
        default_permissions = ("view",)
        constraints = [readable("every_instant_of_a_stored_secret_is_readable", "changed_at")]

    def __str__(self) -> str:
        return self.name
