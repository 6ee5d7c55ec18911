"""What django-q2 runs by its clock (`manage.py install_schedules`). Short tasks only; backups never run here."""

from datetime import datetime

from django.db import connection

from jobs import conf, decisions, emitter, sweeps
from jobs.clock import database_clock
from jobs.handlers import registry
from jobs.models import Worker

PRUNE_BATCH = 1000

# Served by `backlog_done`. Attempts go with their record.
PRUNE = """
WITH gone AS (
    DELETE FROM jobs_backlogrecord
     WHERE ctid = ANY(ARRAY(
           SELECT ctid FROM jobs_backlogrecord
            WHERE finished_at < %(before)s
            ORDER BY finished_at
            LIMIT %(limit)s
              FOR UPDATE SKIP LOCKED))
    RETURNING id
), attempts AS (
    DELETE FROM jobs_attempt WHERE record_id IN (SELECT id FROM gone)
)
SELECT count(*) FROM gone
"""


def tick() -> str:
    """One tick, for the case that no worker is alive to do it, and a look for what became due in mid-period.

    It rescues nothing: only a worker, which ticks each second, can tell a dead worker from a database that was away.
    """
    emitter.correct_watermarks(database_clock())
    ticked = emitter.tick(rescue=False)
    found = sum(catch_up() for catch_up in registry.catch_ups)
    changed = besides()
    return f"{ticked}, {found} found due in mid-period, {changed} changed besides"


def besides() -> int:
    """What is done every minute: overdue sweeps, and what other apps do. The workers do it as well, so a dead qcluster
    costs nothing here."""
    return sweeps.run_overdue() + sum(task() for task in registry.periodic)


def process_backlog(max_age_days: int) -> str:
    """The sweep of one tier of the progressive schedule."""
    return f"{sweeps.process_backlog(max_age_days)}"


def prune(now: datetime | None = None) -> int:
    """Delete finished records and their attempts once their retention is over, in small batches.

    Rows of workers that went as long ago go too, and what the log of decisions no longer keeps. Returns the number of
    records.
    """
    before = (now or database_clock()) - conf.keep_finished()
    Worker.objects.filter(heartbeat_at__lt=before).delete()
    decisions.prune(now)
    pruned = 0
    while True:
        with connection.cursor() as cursor:
            cursor.execute(PRUNE, {"before": before, "limit": PRUNE_BATCH})
            count = int(cursor.fetchone()[0])
        pruned += count
        if count < PRUNE_BATCH:
            return pruned
