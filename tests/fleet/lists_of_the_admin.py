"""Lists of the admin, opened, and backups to list."""

from datetime import timedelta

from django.test import Client
from django.utils import timezone

from sources.models import Backup
from tests.sources.factories import make_assignment, make_policy, make_source

NOW = timezone.now()
BACKUPS, RECORDS, SOURCES = "/admin/sources/backup/", "/admin/jobs/backlogrecord/", "/admin/sources/source/"


def listed(client: Client, path: str, **asked: str) -> list[int]:
    answer = client.get(path, asked)
    assert answer.status_code == 200, answer
    return [row.pk for row in answer.context["cl"].result_list]


def make_backup(name: str, hours: int, snapshot: str) -> Backup:
    assignment = make_assignment(make_policy(), make_source(name=name))
    at = NOW - timedelta(hours=hours)
    return Backup.objects.create(
        assignment=assignment, repository=assignment.policy.repository, attempt=1, engine="rclone", started_at=at,
        ended_at=at, size=1, files=1, snapshot=snapshot,
    )  # fmt: skip
