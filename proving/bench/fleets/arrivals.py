"""Sources that were silent and are asked again in an hour; their agents are about to check in.

Each is a folder that is there by now and overdue, like a laptop that comes back on Monday morning. Others, first in
line, are silent for as long as they may be: their questions hang.
"""

from datetime import timedelta
from pathlib import Path

from django.db.models import F
from django.db.models.functions import Now

from jobs import tick
from jobs.models import BacklogRecord
from jobs.states import Status, WaitingFor
from proving.bench.fleets.deaf_host import address
from schedules.models import Schedule
from sources import planning
from sources.agents import tokens
from sources.models import Assignment, Policy, Repository, Source
from sources.planning import KIND

RECHECK_AFTER = timedelta(hours=1)


def make(sources: int, directory: str, hanging: int = 0, port: int = 0) -> list[tuple[int, str]]:
    """Make, emit and postpone them. Returns for each its assignment's id and its agent's token.

    `port`: the port at which `hanging` others, which are ready to be asked, are silent.
    """
    home = Path(directory)
    schedule = Schedule.objects.create(name="arrivals", cron="0 0 1 1 *", kind=KIND, provider="assignments")
    policy = Policy.objects.create(
        schedule=schedule,
        repository=Repository.objects.create(name="bench", location=str(home / "repository")),
    )
    made = [
        Source.objects.create(name=f"laptop {number}", kind="local", path=str(home / "files"))
        for number in range(sources)
    ]
    found = [(Assignment.objects.create(source=source, policy=policy).pk, tokens.issue(source)) for source in made]
    tick.tick()
    BacklogRecord.objects.filter(status=Status.READY).update(
        status=Status.WAITING,
        waiting_for=WaitingFor.RECHECK,
        run_after=Now() + RECHECK_AFTER,
        tried_at=Now(),
        rank_day=F("run_after__date"),
        attempt=1,
    )
    make_hanging(policy, hanging, port)
    return found


def make_hanging(policy: Policy, count: int, port: int) -> None:
    """Make sources under `policy` that are on the backlog, never backed up, and silent at `port`."""
    silent = Source.objects.bulk_create(
        Source(name=f"frozen {number}", kind="sftp", address=address(number), port=port, path="/")
        for number in range(count)
    )
    Assignment.objects.bulk_create(Assignment(source=source, policy=policy) for source in silent)
    planning.emit_due()
