"""A source that is backed up into one repository and copied into a second one, by its records."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from backups import locations
from backups.upkeep import copies
from jobs.clock import database_clock
from jobs.handlers import Run, registry
from jobs.outcomes import Outcome, Succeeded
from sources import planning
from sources.models import Assignment, Copy, Policy, Repository
from sources.planning import AVAILABILITY, BACKUPS
from storage import layout
from storage.points import runs
from storage.stores import store_of
from tests.backups.points_to_remove import add_backup, belongs_to
from tests.factories import claim_ready
from tests.sources.factories import claim, handed_on, make_assignment, make_policy, make_source, settle
from tests.storage.played_runs import ASSIGNMENT
from tests.storage.with_digests import WithDigests


def make_repository(name: str, place: Path) -> Repository:
    place.mkdir()
    row = Repository.objects.create(name=name, location=str(place))
    belongs_to(place, locations.identity_of(row))
    return row


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    first, second = (make_repository(name, tmp_path / name) for name in ("office", "offsite"))
    return make_policy(repository=first, copy_to=second, keep={"last": 3})


@pytest.fixture
def assignment(policy: Policy, folder: Path) -> Assignment:
    return make_assignment(policy, make_source(name="anna", path=str(folder)))


def backed_up(assignment: Assignment) -> Assignment:
    """Back up its source now, by the engine."""
    planning.back_up_now([assignment])
    done(handed_on(assignment, database_clock()))
    assignment.refresh_from_db()
    assert assignment.to_copy_since
    return assignment


def done(record: Any) -> Outcome:
    outcome = registry.find(record.kind, record.queue)(Run(record))
    assert not isinstance(outcome, Awaitable)
    settle(record, outcome, database_clock())
    return outcome


def at_work(kind: str = copies.KIND) -> Any:
    """The record of that kind, handed on and claimed for an execution unit; what comes before it is done."""
    while True:
        now = database_clock()
        [record, *_] = claim_ready(1, AVAILABILITY, now)
        settle(record, asyncio.run(registry.find(record.kind, AVAILABILITY)(Run(record))), now)  # type: ignore[arg-type]
        record = claim(BACKUPS, now)
        if record.kind == kind:
            return record
        done(record)


def copied(assignment: Assignment) -> Copy:
    assert copies.plan() == 1
    outcome = done(at_work())
    assert isinstance(outcome, Succeeded), outcome
    assignment.refresh_from_db()
    return Copy.objects.get(assignment=assignment, repository=assignment.policy.copy_to)


def points_in(repository: Repository | None, assignment: Assignment) -> list[str]:
    assert repository
    return runs.points(store_of(locations.location_of(repository), Event()), assignment.directory)


def change(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.fixture
def played(policy: Policy) -> WithDigests:
    """Three points that were made without an engine."""
    made = WithDigests(Path(policy.repository.location))
    for text in ("old", "new", "red"):
        made.back_up({"a": text, "b": "the same", f"only/{text}": "x"})
    return made


@pytest.fixture
def waiting(policy: Policy, played: WithDigests) -> Assignment:
    """An assignment with those, of which none is copied."""
    made = make_assignment(policy, make_source(name="anna"), directory=ASSIGNMENT)
    for number, point in enumerate(played.points()):
        add_backup(made, point, number)
    last = layout.instant_of(played.points()[-1])
    Assignment.objects.filter(pk=made.pk).update(last_backup_at=last, to_copy_since=last)
    made.refresh_from_db()
    return made


def copy_of(played: WithDigests, policy: Policy) -> WithDigests:
    assert policy.copy_to
    return WithDigests(Path(policy.copy_to.location), expected=played.expected)
