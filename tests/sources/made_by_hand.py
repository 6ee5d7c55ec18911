"""Points that a test has written into a repository past the engine: they count as ours."""

import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest

from backups import known_points, locations
from sources.models import Assignment, Format, Repository
from storage.points import runs
from storage.points.known import Known, digest_of
from storage.points.store import StorageFailed
from storage.stores import store_of


def take_over(assignment: Assignment, repository: Repository) -> None:
    """Keep the digest of each point that is stored there, as if we had written it."""
    store = store_of(locations.location_of(repository), Event())
    with tempfile.TemporaryDirectory() as scratch:
        for point in runs.points(store, assignment.directory):
            file = Path(scratch) / point
            if store.any_manifest(assignment.directory, point, file):
                known_points.keep(assignment.pk, repository.pk, point, digest_of(file))


@pytest.fixture
def made_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every point in a repository counts as ours when it is first looked at."""
    found = known_points.of

    def of(assignment: Assignment, repository: Repository) -> Known:
        if repository.format == Format.RCLONE and assignment.directory:
            with suppress(StorageFailed):
                take_over(assignment, repository)
        return found(assignment, repository)

    monkeypatch.setattr(known_points, "of", of)
