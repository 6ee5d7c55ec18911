"""Rows of a source and of repositories, at a server and here, made as users make them."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from fleet.repository_edits import Repositories
from sealing import stored_secrets
from sources.models import Repository, Source
from storage.places.location import RESTIC
from tests.engines.restic_keys import make_empty
from tests.sources.factories import HOST_KEY


def make_repository(
    remote: dict[str, Any], secrets: dict[str, str], location: str, name: str = "cloud", **fields: Any
) -> Repository:
    [(option, secret)] = secrets.items()
    references = {option: stored_secrets.store(name, secret)}
    sent = {"name": name, "remote": remote, "secrets": references, "location": location, **fields}
    row: Repository = Repositories().edit(Repository(), sent).row
    return row


def make_repository_here(format: str, name: str, place: Path) -> Repository:
    """One in a folder of this host, in a format of `tests.repositories`; one of restic was begun by hand."""
    if format != RESTIC:
        plain: Repository = Repositories().edit(Repository(), {"name": name, "location": str(place)}).row
        return plain
    key = hashlib.sha256(name.encode()).hexdigest()
    make_empty(place / RESTIC, key)
    facts = {"location": str(place), "format": format, "encrypted": True, "key": stored_secrets.store(name, key)}
    row = Repository.objects.create(name=name, **facts)
    assert not any(Repositories().finish(row))
    return row


SECRET = "env:BACKUP_SECRET_LAPTOP"
LAPTOP = {
    "name": "laptop", "kind": "sftp", "address": "192.0.2.7", "path": "/home", "options": {"user": "backup"},
    "secret": SECRET, "host_key": HOST_KEY,
}  # fmt: skip


@pytest.fixture
def laptop() -> Source:
    return Source.objects.create(**LAPTOP)
