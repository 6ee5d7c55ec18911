"""The clocks of the hosts against the database's. Leases use the database's alone; logs and engines use the hosts'."""

from datetime import UTC, datetime, timedelta

from django.db.backends.utils import CursorWrapper

from jobs import conf
from jobs.clock import MAX_SKEW_SECONDS
from operations.doctor.asking import row, rows
from operations.doctor.finding import Finding, listed, ok, warning

# Served by `worker_alive`.
LIVING = """
SELECT name, clock_skew
  FROM jobs_worker
 WHERE stopped_at IS NULL AND heartbeat_at > %(since)s AND abs(clock_skew) > %(most)s
 ORDER BY abs(clock_skew) DESC
 LIMIT 100
"""


def host_clock() -> datetime:
    """The present instant as this machine has it, aware UTC."""
    return datetime.now(UTC)


def clocks(cursor: CursorWrapper, now: datetime) -> Finding:
    """Whether this machine's clock, and those of the living workers' hosts, agree with the database's."""
    before = host_clock()
    at_database = row(cursor, "SELECT clock_timestamp()")[0]
    # the answer was given half-way between question and arrival
    skew = ((before + (host_clock() - before) / 2) - at_database).total_seconds()
    since = now - timedelta(seconds=conf.lease_seconds())
    off = {str(name): float(ahead) for name, ahead in rows(cursor, LIVING, {"since": since, "most": MAX_SKEW_SECONDS})}
    said = [f"this machine's clock is {_off(skew)}"] if abs(skew) > MAX_SKEW_SECONDS else []
    said += [f"that of worker {name} is {_off(ahead)}" for name, ahead in off.items()]
    numbers = {"this_machine": round(skew, 3), "workers": off}
    if said:
        return warning(
            "clocks",
            f"{listed(said)}: logs and the times of copied files mislead",
            "synchronise the clocks of these machines and of the database's (NTP: chrony, systemd-timesyncd)",
            **numbers,
        )
    return ok("clocks", f"this machine's clock is {_off(skew)}; no living worker's is far off", **numbers)


def _off(skew: float) -> str:
    return f"{abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} the database's"
