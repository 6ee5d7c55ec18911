"""A real worker with simulated handlers, in a process of its own, claims in the order of the memory world: what fails
and what leaves among them. It may ask further ahead: an answer that is not settled yet is not counted.
"""

import json
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord, PausedQueue, Worker
from jobs.states import Status
from simulation import fleet_file
from simulation.lookahead.memory import MemoryWorld
from simulation.lookahead.sql import SqlWorld
from simulation.lookahead.worker import VirtualWorker
from simulation.lookahead.world import rows_of
from simulation.machines import machines_of
from simulation.results import Ledger
from sources.models import Assignment
from sources.planning.names import AVAILABILITY, BACKUPS, subject_of
from tests.jobs.worker_processes import LONG_LEASE, Programs, programs  # noqa: F401 - a fixture
from tests.simulation.small_fleets import DAY, source
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


class _Enough(Exception):
    """As many copies have ended as are compared."""


def a_fleet(start: datetime) -> dict[str, Any]:
    """One unit; small and large first backups, later ones, one that fails and one that leaves. All end before one is
    tried again.
    """
    always = (0, DAY, "awake")
    sources = [
        source("large", always, first_seconds=9),
        source("later", always, backed_up=True, median_seconds=2),
        source("leaves", (0, 4, "awake"), first_seconds=4),
        source("fails", always, first_seconds=3, failing=1),
        source("small", always, first_seconds=1),
        source("quick", always, backed_up=True, median_seconds=1),
        source("middle", always, first_seconds=6),
    ]
    return {"units": 1, "start": start.isoformat(), "policies": [{"name": "daily"}], "sources": sources}


def standing(assignment: Assignment) -> tuple[Any, ...]:
    return assignment.failures, assignment.losses, assignment.last_backup_at is not None, assignment.next_backup_at


@pytest.mark.timeout(900)
def test_a_real_worker_claims_what_the_memory_world_claims(programs: Programs, tmp_path: Path) -> None:  # noqa: F811
    start = database_clock().replace(microsecond=0)
    fleet = fleet_file.parse(a_fleet(start))
    machines = machines_of(fleet, 1)
    number = len(machines)
    ledger = Ledger(fleet, machines, 1)
    memory = MemoryWorld(rows_of(fleet, machines), fleet.units)
    virtual = VirtualWorker(ledger, memory)

    def enough(_: float) -> None:
        if len(ledger.runs) >= number:
            raise _Enough

    with pytest.raises(_Enough):
        virtual.run(enough)
    copies = [each for _, each, queue, _ in virtual.trace if queue == BACKUPS][:number]
    assert sorted(copies) == [machine.number for machine in machines]
    ends = {run.number: "ok" if run.succeeded else "fails" if run.failed else "leaves" for run in ledger.runs}
    assert sorted(ends.values()) == ["fails", "leaves", *["ok"] * 5]
    asked_first = next(place for place, (*_, queue, _) in enumerate(virtual.trace) if queue == BACKUPS)

    world = SqlWorld(rows_of(fleet, machines), fleet.units, start)
    Worker.objects.all().delete()  # the virtual one
    PausedQueue.objects.create(name=BACKUPS)  # until the first answers are there, whichever of them comes first
    world.begin(start)
    (tmp_path / "ends.json").write_text(json.dumps({subject_of(each): how for each, how in ends.items()}))
    programs.run(str(Path(__file__).parent / "simulated_worker.py"), str(tmp_path), **LONG_LEASE)
    answered = Attempt.objects.filter(queue=AVAILABILITY)
    eventually(lambda: answered.count() >= asked_first)
    PausedQueue.objects.all().delete()
    running = BacklogRecord.objects.filter(queue=BACKUPS, status=Status.RUNNING)
    subjects = [subject_of(each) for each in copies]
    for subject, following in pairwise([*subjects, None]):
        record = eventually(running.first)
        assert record.subject == subject, subjects
        eventually((tmp_path / f"begun-{record.pk}").exists)
        if following:  # the unit chooses among those that have answered when it gets free
            eventually(answered.filter(record__subject=following).exists)
        (tmp_path / f"go-{record.pk}").touch()
        eventually(lambda pk=record.pk: Attempt.objects.filter(record=pk, queue=BACKUPS).exists())
    for each in copies:
        assert standing(world.assignment(each)) == standing(memory.assignment(each))
