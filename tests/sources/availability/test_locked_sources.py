"""While an import of a fleet holds a source locked, the others are asked as ever."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from jobs import claiming, conf
from jobs.clock import boot_seconds
from jobs.outcomes import Claimed, Handoff, Outcome, Unavailable
from jobs.worker.units import Units
from sources import planning
from sources.models import Source
from tests.factories import make_worker
from tests.sources.factories import make_assignment, make_policy, make_source
from tests.sources.hosts import another_address
from tests.threads import another_connection
from tests.waiting import PATIENCE

PRESENT = 100

Ended = SimpleQueue[tuple[Claimed, Outcome]]


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
    for _ in range(PRESENT):
        make_assignment(policy, make_source(path=str(tmp_path)))
    planning.emit_due()
    with another_connection() as other:
        other.execute("SELECT FROM sources_source WHERE id = %s FOR UPDATE", [locked.pk])
        sent_at = boot_seconds()
        units.start(claiming.claim(planning.AVAILABILITY, worker_id=make_worker().pk, limit=PRESENT + 1), sent_at)
        outcomes = [ended.get(timeout=PATIENCE)[1] for _ in range(PRESENT + 1)]
    assert Counter(map(type, outcomes)) == {Handoff: PRESENT, Unavailable: 1}
    assert Source.objects.get(pk=locked.pk).last_woken_at is None  # not waited for: a second packet does no harm
