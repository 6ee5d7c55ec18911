from django.core.exceptions import ImproperlyConfigured


class EmbeddedDatabaseError(ImproperlyConfigured):
    """The embedded PostgreSQL cannot be used. The message says what, where, and what to do."""


class EmbeddedDatabaseAway(EmbeddedDatabaseError):
    """It does not start now: its disk is full, its files cannot be written, or `pg_ctl` failed. That may pass."""
