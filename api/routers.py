"""The routers of what knows nothing of backups, in the order of the document."""

from api import (
    breakers,
    endpoints,
    me,
    queues,
    records,
    retry_policies,
    schedules,
    throttles,
    triggers,
    workers,
)

ROUTERS = (
    schedules.router,
    triggers.router,
    throttles.router,
    endpoints.router,
    retry_policies.router,
    records.router,
    queues.router,
    breakers.router,
    workers.router,
    me.router,
)
