"""The backlog in Django's admin: what a person edits, and what machines wrote, read-only."""

from operations.admin import (  # noqa: F401 - register their pages
    audit,
    breakers,
    decisions,
    endpoints,
    queues,
    records,
    retry_policies,
    schedules,
    throttles,
    triggers,
)
