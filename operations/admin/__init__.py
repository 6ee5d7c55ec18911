"""The backlog in Django's admin: pages to edit declarations, and read-only pages of rows that machines wrote."""

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
