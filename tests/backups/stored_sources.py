"""Rows of a source and of a repository at a server, made as users make them."""

from typing import Any

import pytest

from fleet.repository_edits import Repositories
from sealing import stored_secrets
from sources.models import Repository, Source
from tests.sources.factories import HOST_KEY


def make_repository(
    remote: dict[str, Any], secrets: dict[str, str], location: str, name: str = "cloud", **fields: Any
) -> Repository:
    [(option, secret)] = secrets.items()
    references = {option: stored_secrets.store(name, secret)}
    sent = {"name": name, "remote": remote, "secrets": references, "location": location, **fields}
    row: Repository = Repositories().edit(Repository(), sent).row
    return row


SECRET = "env:BACKUP_SECRET_LAPTOP"
LAPTOP = {
    "name": "laptop", "kind": "sftp", "address": "192.0.2.7", "path": "/home", "options": {"user": "backup"},
    "secret": SECRET, "host_key": HOST_KEY,
}  # fmt: skip


@pytest.fixture
def laptop() -> Source:
    return Source.objects.create(**LAPTOP)
