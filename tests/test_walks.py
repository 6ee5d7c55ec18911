"""How many modules the daily ways lead through, and that none comes back to a module by ever other doors.

`python -m pytest tests/test_walks.py -s` prints the ways, and `docs/ways.md` draws them. The figures are the present
ones: a change that leads through a further module raises one here, in sight.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync

from backups.copying.handler import copy_source
from delivery.models import Endpoint
from jobs import claiming, settling
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.outcomes import Handoff, Succeeded
from schedules import emitter
from sources import planning
from sources.availability.check import ask_source
from sources.models import Assignment, Repository
from tests.factories import make_record, make_schedule, make_worker
from tests.sources.factories import claimed_for, handed_on, make_assignment, make_policy, make_source
from tests.walks import Walk

pytestmark = pytest.mark.django_db(transaction=True)

FIRST = 1000
"""Modules of a first time, which imports what it meets: not counted."""


@contextmanager
def at_most(modules: int, way: str) -> Iterator[None]:
    if modules == FIRST:
        yield
        return
    with Walk() as walk:
        yield
    sys.stdout.write(f"\n{way}: {walk}")
    assert len(walk.modules) <= modules, f"{way}: {walk}"
    assert walk.crooked == {}


@pytest.fixture
def assignment(tmp_path: Path) -> Assignment:
    for each in ("files", "repository"):
        (tmp_path / each).mkdir()
    (tmp_path / "files" / "letter").write_bytes(b"Dear bank\n")
    repository = Repository.objects.create(name="office", location=str(tmp_path / "repository"))
    return make_assignment(make_policy(repository=repository), make_source(path=str(tmp_path / "files")))


def test_a_claim_and_a_settle() -> None:
    worker = make_worker()
    for in_claim, in_settle in ((FIRST, FIRST), (6, 5)):
        make_record(kind="plain", queue="default")
        with at_most(in_claim, "claim"):
            [record] = claiming.claim("default", worker_id=worker.pk, limit=1)
        with at_most(in_settle, "settle"):
            settling.settle([(record, Succeeded())])


def test_an_emission_of_events() -> None:
    endpoint = Endpoint.objects.create(name="hook", url="https://example.com/hook")
    for modules in (FIRST, 17):
        now = database_clock()
        due = {"cron": "* * * * *", "next_trigger_at": now.replace(second=0, microsecond=0)}
        make_schedule(kind="callback", provider="", event_count=3, endpoint=endpoint, **due)
        with at_most(modules, "emission of events"):
            assert emitter.emit_triggers(now) >= 3


def test_an_emission_of_backups() -> None:
    for modules in (FIRST, 23):
        now = database_clock()
        make_assignment(make_policy(next_trigger_at=now))
        with at_most(modules, "emission of backups"):
            assert emitter.emit_triggers(now) == 1


def test_a_check_of_availability(assignment: Assignment) -> None:
    for modules in (FIRST, 12):
        run = Run(claimed_for(assignment))
        with at_most(modules, "check of availability"):
            assert isinstance(async_to_sync(ask_source)(run), Handoff)


def test_a_copy_and_its_settle(assignment: Assignment) -> None:
    for in_copy, in_settle in ((FIRST, FIRST), (40, 39)):
        new = make_assignment(make_policy(repository=assignment.policy.repository), assignment.source)
        planning.emit_due(None, [new.pk])
        run = Run(handed_on(new, database_clock()))
        with at_most(in_copy, "copy"):
            outcome = copy_source(run)
        with at_most(in_settle, "settle of a copy"):
            settling.settle([(run.record, outcome)])
        assert isinstance(outcome, Succeeded)
