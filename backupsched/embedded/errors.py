from django.core.exceptions import ImproperlyConfigured


class EmbeddedDatabaseError(ImproperlyConfigured):
    """The embedded PostgreSQL cannot be used. The message says what, where, and what to do."""
