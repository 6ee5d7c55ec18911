"""Backups for tests of the API."""

from datetime import timedelta
from itertools import count
from typing import Any

from django.utils import timezone

from sources.models import Assignment, Backup

_numbers = count(1)


def add_backup(assignment: Assignment, **fields: Any) -> Backup:
    """A backup of an assignment that ended now."""
    now = timezone.now()
    values = {
        "repository": assignment.policy.repository, "record_id": next(_numbers), "attempt": 1, "engine": "rclone",
        "started_at": now - timedelta(minutes=1), "ended_at": now, "size": 2048, "read": 1024, "files": 3,
        "snapshot": "somewhere",
    }  # fmt: skip
    return Backup.objects.create(assignment=assignment, **(values | fields))
