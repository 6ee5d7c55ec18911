"""Restores that are asked for, and the records that work on them."""

from datetime import UTC, datetime
from typing import Any

from backups.restores import drills, handler, requests
from jobs import settling
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.outcomes import Handoff, Outcome
from sources.models import Restore
from sources.planning import AVAILABILITY, BACKUPS
from tests.api.asking import Program, make_user
from tests.sources.factories import claim, settle


def work(is_stopped: bool = False) -> Restore:
    """Run the one record that is ready, as a worker does."""
    record = claim(requests.QUEUE, database_clock())
    run = Run(record)
    if is_stopped:
        run.stop.set()
    settling.settle([(record, handler.run_restore(run))])
    return Restore.objects.get(pk=record.payload["restore"])


def ask(**body: Any) -> Any:
    account = make_user("restore_source", "view_restore")
    return Program(account, scopes=("operate",)).post("restores", {"source": "nas", **body})


NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def drilled(now: datetime = NOW) -> Outcome:
    """Carry out the record on the backlog, and settle it."""
    record = claim(AVAILABILITY, now)
    settle(record, Handoff(BACKUPS, exclusive_key=record.payload["key"]), now)
    record = claim(BACKUPS, now)
    outcome = drills.run_drill(Run(record))
    settle(record, outcome, now)
    return outcome
