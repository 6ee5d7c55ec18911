"""Django system checks: what in the settings would stop the backlog, or quietly do it harm. No database is asked.

An error (`jobs.E…`) is a setting with which workers cannot run, or would break a promise; a warning (`jobs.W…`) costs
time or pruning, never work. `manage.py doctor` says the same again, beside what it finds in the running system.

values      settings.JOBS: its keys, and all but its queues; CALLBACKS_ALLOWED
queues      settings.JOBS["QUEUES"]
kinds       whether each kind of record finds its queue and its handler
database    DATABASES["default"], and USE_TZ
q_cluster   Q_CLUSTER of django-q2
"""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, register
from django.db import connection

from jobs.handlers import Handler, registry
from operations.checks.database import wrong_with_database
from operations.checks.kinds import kinds_nobody_takes, unreached_handlers
from operations.checks.messages import error
from operations.checks.q_cluster import wrong_with_q_cluster
from operations.checks.queues import wrong_with_queues
from operations.checks.values import unknown_keys, wrong_addresses, wrong_values

TAG = "jobs"
"""`manage.py check --tag jobs`. Not `database`: those checks are left out unless a database is named."""

Apps = Sequence[AppConfig] | None


@register(TAG)
def check_backlog(app_configs: Apps = None, **_: Any) -> list[CheckMessage]:
    """What is wrong with settings.JOBS, and with CALLBACKS_ALLOWED."""
    found = getattr(settings, "JOBS", {})
    if not isinstance(found, dict):
        return [error("E001", f"JOBS is {found!r:.80}, not a dict", "see jobs/conf.py for an example")]
    return [
        *unknown_keys(found),
        *wrong_with_queues(found.get("QUEUES", {})),
        *wrong_values(found),
        *wrong_addresses(getattr(settings, "CALLBACKS_ALLOWED", [])),
    ]


@register(TAG)
def check_registry(app_configs: Apps = None, **_: Any) -> list[CheckMessage]:
    """Kinds and handlers whose queue no worker can serve. Says nothing while settings.JOBS itself is wrong."""
    if any(message.is_serious() for message in check_backlog()):
        return []
    queues = list(getattr(settings, "JOBS", {}).get("QUEUES", {"default": {}}))
    return [*kinds_nobody_takes(registry, queues), *unreached_handlers(registry, queues)]


@register(TAG)
def check_database(app_configs: Apps = None, **_: Any) -> list[CheckMessage]:
    """What DATABASES["default"] says that the backlog cannot live with. Connects nowhere."""
    return list(wrong_with_database(connection.settings_dict, connection.vendor, settings.USE_TZ))


@register(TAG)
def check_periodic_tasks(app_configs: Apps = None, **_: Any) -> list[CheckMessage]:
    """The traps of django-q2's defaults (docs/decisions/0004-django-q2-runs-the-clock-only.md)."""
    if not apps.is_installed("django_q"):
        return []
    return list(wrong_with_q_cluster(getattr(settings, "Q_CLUSTER", {})))


def registered() -> dict[tuple[str, str], Handler]:
    """The handlers of this installation by (kind, queue)."""
    return registry.handlers()
