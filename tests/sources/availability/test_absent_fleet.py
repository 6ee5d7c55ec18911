"""Silent and locked sources stop nothing: most of a fleet is switched off, and an import holds a source."""

import logging
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import pytest

from jobs import claiming, conf
from jobs.clock import boot_seconds
from jobs.models import Attempt
from jobs.outcomes import ClaimedRecord, Handoff, Outcome, Unavailable
from jobs.states import AttemptOutcome
from jobs.worker.units import Units
from sources import planning
from sources.models import Assignment, Backup, Policy, Repository, Source
from sources.planning import AVAILABILITY, BACKUPS, emit_due, subject_of
from tests.factories import make_worker
from tests.sources.factories import make_assignment, make_policy, make_source
from tests.sources.hosts import another_address
from tests.sources.strangers import black_hole
from tests.sources.worker_process import worker_process
from tests.threads import another_connection
from tests.waiting import PATIENCE, eventually

log = logging.getLogger(__name__)

ABSENT, PRESENT = 90, 5
ASKED_AT_ONCE, UNITS = 30, 4
CONNECT_TIMEOUT = 1.0
SWEEP_SECONDS = 3 * (ABSENT / ASKED_AT_ONCE * CONNECT_TIMEOUT)
COPY_BYTES = 10_000
HOOK = """
[gate]
before = ["/bin/sh", "-c", "echo >> {folder}/begun; until [ -e {folder}/gate ]; do sleep 0.1; done"]
"""
"""It holds each copy until a file is there."""


class Asked(NamedTuple):
    """One attempt of a source: when, in which queue, with what outcome."""

    source: str
    queue: str
    began_at: datetime
    ended_at: datetime
    outcome: int

    @property
    def seconds(self) -> float:
        return (self.ended_at - self.began_at).total_seconds()


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """Silent sources are due again as soon as they may be, to see that they do not get in the way."""
    (tmp_path / "repository").mkdir()
    return make_policy(
        repository=Repository.objects.create(name="vault", location=str(tmp_path / "repository")),
        connect_timeout=CONNECT_TIMEOUT,
        recheck_after=1,
        hook="gate",
    )


@pytest.fixture
def fleet(policy: Policy, tmp_path: Path) -> Iterator[set[str]]:
    """Sources that are there, somewhere among those that are switched off. Yields the names of the latter."""
    with black_hole() as port:
        absent = [
            Source(name=f"absent-{number}", kind="sftp", address=another_address(), port=port, path="/")
            for number in range(ABSENT)
        ]
        sources = absent + [folder_of(tmp_path / f"share-{number}") for number in range(PRESENT)]
        random.Random(4).shuffle(sources)
        Source.objects.bulk_create(sources)
        Assignment.objects.bulk_create([Assignment(source=source, policy=policy) for source in sources])
        yield {source.name for source in absent}


def folder_of(path: Path) -> Source:
    path.mkdir()
    (path / "file").write_bytes(os.urandom(COPY_BYTES))
    return Source(name=path.name, kind="local", path=str(path))


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that finds the fleet on its backlog."""
    assert emit_due() == ABSENT + PRESENT
    (hooks := tmp_path / "hooks.toml").write_text(HOOK.format(folder=tmp_path))
    hooks.chmod(0o644)
    queues = f"{AVAILABILITY}:{ASKED_AT_ONCE},{BACKUPS}:{UNITS}"
    with worker_process(queues, tmp_path, BACKUPSCHED_HOOKS=str(hooks)) as process:
        yield process


def attempts() -> list[Asked]:
    names = {subject_of(one.pk): one.source.name for one in Assignment.objects.select_related("source")}
    rows = Attempt.objects.order_by("started_at").values_list(
        "record__subject", "queue", "started_at", "ended_at", "outcome"
    )
    return [Asked(names[subject], *rest) for subject, *rest in rows]


@pytest.mark.promise
@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_absent_sources_cost_no_unit_a_second(fleet: set[str], worker: subprocess.Popen[bytes], tmp_path: Path) -> None:
    def all_units_copy() -> bool:
        assert worker.poll() is None
        begun = tmp_path / "begun"
        return begun.exists() and begun.stat().st_size == UNITS

    def all_are_done() -> bool:
        assert worker.poll() is None
        silent = Attempt.objects.filter(outcome=AttemptOutcome.UNAVAILABLE).values("record").distinct()
        return Backup.objects.count() == PRESENT and silent.count() >= ABSENT

    eventually(all_units_copy)
    (tmp_path / "gate").touch()
    eventually(all_are_done, seconds=90)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0
    everything = attempts()
    asked = [one for one in everything if one.queue == AVAILABILITY and one.outcome != AttemptOutcome.RELEASED]
    first, again = first_and_again(asked)
    sweep = (max(one.ended_at for one in first) - min(one.began_at for one in first)).total_seconds()
    on_absent = [one for one in everything if one.queue == BACKUPS and one.source in fleet]
    of_units = [one for one in everything if one.queue == BACKUPS]
    log.info(
        "%s absent sources swept in %.1f s (allowed %.1f); unit-seconds on absent sources: %s, on others: %.1f",
        *(ABSENT, sweep, SWEEP_SECONDS, sum(one.seconds for one in on_absent), sum(one.seconds for one in of_units)),
    )

    assert len(first) == ABSENT + PRESENT
    assert on_absent == []
    assert sum(one.seconds for one in on_absent) == 0
    assert all(one.began_at >= max(other.began_at for other in first) for one in again)
    assert {one.source for one in of_units} == {one.source for one in first} - fleet
    assert all(one.outcome == AttemptOutcome.SUCCEEDED for one in of_units)


def first_and_again(asked: list[Asked]) -> tuple[list[Asked], list[Asked]]:
    """The first contact with each source, and all later ones."""
    first: dict[str, Asked] = {}
    again = [one for one in asked if first.setdefault(one.source, one) is not one]
    return list(first.values()), again


MANY = 100

Ended = SimpleQueue[tuple[ClaimedRecord, Outcome]]


@pytest.fixture
def ended() -> Ended:
    return SimpleQueue()


@pytest.fixture
def units(ended: Ended) -> Iterator[Units]:
    """The places of a worker for the queue `availability`."""
    units = Units(
        [conf.queue_rules()[planning.AVAILABILITY]],
        lambda record, outcome: ended.put((record, outcome)),
        room_made=lambda: None,
        after_thread=lambda: None,
    )
    yield units
    units.close()


@pytest.mark.django_db(transaction=True)
def test_a_silent_source_that_is_locked_stops_no_question(units: Units, ended: Ended, tmp_path: Path) -> None:
    policy = make_policy(wake_allowed=True)
    locked = make_source(
        kind="sftp",
        address=another_address(),  # nothing listens there: refused at once
        port=9,
        mac_address="02:00:00:aa:bb:cc",
        wake_address="127.0.0.1",
    )
    make_assignment(policy, locked)
    for _ in range(MANY):
        make_assignment(policy, make_source(path=str(tmp_path)))
    planning.emit_due()
    with another_connection() as other:
        other.execute("SELECT FROM sources_source WHERE id = %s FOR UPDATE", [locked.pk])
        sent_at = boot_seconds()
        units.start(claiming.claim(planning.AVAILABILITY, worker_id=make_worker().pk, limit=MANY + 1), sent_at)
        outcomes = [ended.get(timeout=PATIENCE)[1] for _ in range(MANY + 1)]
    assert Counter(map(type, outcomes)) == {Handoff: MANY, Unavailable: 1}
    assert Source.objects.get(pk=locked.pk).last_woken_at is None  # not waited for: a second packet does no harm
