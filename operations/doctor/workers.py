"""The workers: whether any lives, which fell silent, and whether expired leases are rescued."""

from datetime import datetime, timedelta

from django.db.backends.utils import CursorWrapper

from jobs import conf
from jobs.durations import span
from jobs.models import Worker
from jobs.states import Status
from jobs.worker.sockets import MOST, RESERVED
from operations.doctor.asking import COUNT_TO, counted, row, rows
from operations.doctor.finding import Finding, listed, ok, problem, several, warning

SILENT_FOR = timedelta(days=1)
"""A worker that died longer ago is history: others have rescued what it ran, and its row goes with pruning."""

LATELY = timedelta(minutes=15)
"""A worker writes at most once a minute that it ran out of sockets."""

READY = f"SELECT count(*) FROM (SELECT FROM jobs_backlogrecord WHERE status = {Status.READY} LIMIT {COUNT_TO + 1}) AS r"

# Served by `worker_alive`.
SILENT = """
SELECT name, EXTRACT(EPOCH FROM %(now)s - heartbeat_at)::float8
  FROM jobs_worker
 WHERE stopped_at IS NULL AND heartbeat_at <= %(silent)s AND heartbeat_at > %(recent)s
 ORDER BY heartbeat_at DESC
 LIMIT 100
"""

# Served by `backlog_lease_expires`. Nothing is rescued for one lease after the start of the server.
NOT_RESCUED = f"""
SELECT count(*), EXTRACT(EPOCH FROM %(now)s - min(lease_expires_at))::float8,
       (array_agg(id ORDER BY lease_expires_at))[:5]
  FROM (SELECT id, lease_expires_at
          FROM jobs_backlogrecord
         WHERE status = {Status.RUNNING} AND lease_expires_at <= %(before)s AND pg_postmaster_start_time() <= %(before)s
         ORDER BY lease_expires_at
         LIMIT {COUNT_TO + 1}) AS expired
"""


def living(now: datetime) -> list[Worker]:
    """The workers with a heartbeat within the last lease."""
    since = now - timedelta(seconds=conf.lease_seconds())
    return list(Worker.objects.filter(stopped_at=None, heartbeat_at__gt=since).order_by("pk"))


def workers(cursor: CursorWrapper, now: datetime) -> Finding:
    """Whether anybody works."""
    alive = len(living(now))
    if alive:
        return ok("workers", f"{several(alive, 'worker')} alive", alive=alive)
    ready = int(row(cursor, READY)[0])
    do = "start one: manage.py worker (make run starts one of each process)"
    if ready:
        what = f"no worker is alive; records that are ready: {counted(ready)}"
        return problem("workers", what, do, alive=0, ready=ready)
    return warning("workers", "no worker is alive; nothing is ready now", do, alive=0, ready=0)


def sockets(cursor: CursorWrapper, now: datetime) -> Finding:
    """Whether workers ask as many sources at once as they would, or their file descriptors are used up."""
    alive = living(now)
    allowed = {worker.name: worker.sockets for worker in alive}
    bound = [worker for worker in alive if worker.out_of_sockets_at and worker.out_of_sockets_at > now - LATELY]
    if not bound:
        return ok("sockets", "no worker ran out of sockets to ask sources with", sockets=allowed)
    said = listed([f"{worker.name} ({worker.sockets} sockets)" for worker in bound])
    return warning(
        "sockets",
        f"as many sources that do not answer are asked at once as file descriptors allow, others wait: {said}",
        f"allow the workers {MOST + RESERVED} open files (LimitNOFILE= of their service, ulimit -Hn), or start another "
        "worker",
        sockets=allowed,
    )


def silent_workers(cursor: CursorWrapper, now: datetime) -> Finding:
    """Workers whose heartbeat stopped, without a goodbye, within the last day."""
    times = {"now": now, "silent": now - timedelta(seconds=conf.lease_seconds()), "recent": now - SILENT_FOR}
    silent = {str(name): float(seconds) for name, seconds in rows(cursor, SILENT, times)}
    if not silent:
        return ok("silent_workers", f"none fell silent in the last {span(SILENT_FOR.total_seconds())}", silent=silent)
    said = listed([f"{name} for {span(seconds)}" for name, seconds in silent.items()])
    return warning(
        "silent_workers",
        f"without a heartbeat, and never stopped: {said}",
        "look at its log on that host: killed, out of memory, stuck in its event loop, or cut off from the database? "
        "Others rescue what it ran; "
        "start it again if nothing did",
        silent=silent,
    )


def expired_leases(cursor: CursorWrapper, now: datetime) -> Finding:
    """Leases that expired two leases ago, and that nobody rescued. A worker that ticks rescues after one."""
    lease = conf.lease_seconds()
    values = {"now": now, "before": now - timedelta(seconds=2 * lease)}
    count, oldest, records = row(cursor, NOT_RESCUED, values)
    if not count:
        return ok("expired_leases", "no expired lease waits for its rescue", expired=0)
    return problem(
        "expired_leases",
        f"leases that expired and are not rescued: {counted(count)}, the oldest {span(oldest)} ago (record "
        f"{', '.join(map(str, records))})",
        "start a worker, it rescues them after one lease; if one lives, its log says why it cannot (cannot settle)",
        expired=count,
        oldest_seconds=oldest,
        records=records,
    )
