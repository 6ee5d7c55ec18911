"""Five points of which a policy keeps two, and the records that work on them."""

import asyncio
import threading
from collections.abc import Awaitable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from backups import locations
from backups.upkeep import retention
from jobs.handlers import Run, registry
from jobs.models import Decision
from jobs.outcomes import ClaimedRecord, Outcome, Succeeded
from sources.models import Assignment, Backup, Repository
from sources.planning import AVAILABILITY, BACKUPS
from storage import layout
from storage.places import identity
from storage.places.identity import Identity
from storage.places.location import of_directory
from storage.points.store import Store
from tests.sources.factories import claim, make_assignment, make_policy, settle
from tests.storage.played_runs import ASSIGNMENT, BEGAN, Played

NOW = BEGAN + timedelta(days=9)


@pytest.fixture
def played(tmp_path: Path) -> Played:
    """Five points, of five days; each has another content."""
    made = Played(tmp_path)
    for number in range(5):
        made.back_up({"a": f"{number}", "b": "the same", f"only/{number}": "x"})
    return made


@pytest.fixture
def assignment(played: Played) -> Assignment:
    repository = Repository.objects.create(name="office", location=str(played.root))
    belongs_to(played.root, locations.identity_of(repository))
    made = make_assignment(make_policy(keep={"last": 2}, repository=repository), directory=ASSIGNMENT)
    for number, point in enumerate(played.points()):
        add_backup(made, point, number)
    return made


def belongs_to(root: Path, whose: Identity) -> None:
    identity.write(Store(of_directory(root), threading.Event()), whose)


def add_backup(assignment: Assignment, point: str, number: int) -> Backup:
    at = layout.instant_of(point)
    return Backup.objects.create(
        assignment=assignment, repository=assignment.policy.repository, record_id=number, attempt=1, engine="rclone",
        started_at=at, ended_at=at, size=1, files=1, snapshot=point,
    )  # fmt: skip


def at_work(now: datetime = NOW) -> ClaimedRecord:
    """Its record, handed on through the gate and claimed for an execution unit."""
    record = claim(AVAILABILITY, now)
    settle(record, asyncio.run(registry.find(record.kind, AVAILABILITY)(Run(record))), now)  # type: ignore[arg-type]
    return claim(BACKUPS, now)


def run(record: ClaimedRecord, now: datetime = NOW) -> Outcome:
    outcome = registry.find(record.kind, BACKUPS)(Run(record))
    assert not isinstance(outcome, Awaitable)
    settle(record, outcome, now)
    return outcome


def thin_out(assignment: Assignment, now: datetime = NOW) -> None:
    """Remove by a record what its policy does not keep."""
    assert retention.plan([assignment], now) == 1
    assert isinstance(run(at_work(now), now), Succeeded)


def logged(what: str) -> str:
    return Decision.objects.get(kind=retention.KIND, what=what).text
