"""The tick: all changes that time alone brings. Idempotent, and safe on any number of hosts at once.

    the step of another app → promote due records → let trials of breakers through → close windows
    → rescue expired leases

Each step is a batched statement on its own partial index that skips rows that others hold locked. Every worker ticks
once a second by itself; a clock outside of the workers ticks every minute, in case no worker is alive to do it.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import NamedTuple

from django.utils import timezone

from jobs import breakers, promotion, rescuing
from jobs.database_errors import log_unless_away
from jobs.handlers import StepDue, registry
from jobs.prepared_statements import STEP_SECONDS, execute, until_done
from jobs.states import Status
from jobs.window_ends import close_windows

log = logging.getLogger(__name__)

BATCH = 1000

EMIT_SECONDS = 0.5
"""The share of a worker's tick that the emission may take, in seconds. A huge batch is continued at the next tick,
after the claims."""
EMIT_SECONDS_WITHOUT_WORKERS = 20.0
"""The same for a tick outside of the workers, which keeps no claim waiting."""

# Served by `backlog_waiting_until`.
PROMOTE = promotion.statement("run_after <= %(now)s::timestamptz", "run_after", key="ctid", run_after="run_after")

# The heads of the partial indexes that serve the steps, and one probe of `backlog_claim_order` per queue. ORDER BY …
# LIMIT 1 and not EXISTS, for which the planner may read the whole table when there is no such row.
LOOK = f"""
SELECT clock.now,
       (SELECT run_after
          FROM jobs_backlogrecord
         WHERE status = {Status.WAITING}
         ORDER BY run_after
         LIMIT 1),
       (SELECT closes_at
          FROM jobs_backlogrecord
         WHERE status = {Status.READY} AND closes_at IS NOT NULL
         ORDER BY closes_at
         LIMIT 1),
       (SELECT lease_expires_at
          FROM jobs_backlogrecord
         WHERE status = {Status.RUNNING}
         ORDER BY lease_expires_at
         LIMIT 1),
       (SELECT min(probe_at) FROM jobs_breaker),
       ARRAY(
           SELECT asked.name
             FROM unnest(%(queues)s::text[]) AS asked(name)
            CROSS JOIN LATERAL (
                  SELECT
                    FROM jobs_backlogrecord
                   WHERE status = {Status.READY} AND queue = asked.name
                   ORDER BY lane
                   LIMIT 1) AS first
            WHERE asked.name NOT IN (SELECT name FROM jobs_pausedqueue) AND NOT EXISTS (SELECT FROM jobs_hold)){{step}}
  FROM (SELECT COALESCE(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
"""


@dataclass(frozen=True)
class Due:
    """The result of a look at `now`. The instants are those at which the first waiting record may run, the first window
    of a ready one closes, the first lease expires and the first breaker lets something through, past or future.
    `ready`: those of the given queues that have ready records and are neither paused nor held. `step`: the answer of
    the registered step.
    """

    now: datetime
    run_after: datetime | None
    closes_at: datetime | None
    lease_expires_at: datetime | None
    probe_at: datetime | None
    ready: frozenset[str]
    step: StepDue

    def has_come(self, instant: datetime | None) -> bool:
        return instant is not None and instant <= self.now

    def seconds_until_next(self) -> float:
        """Seconds until the first waiting record may run or the step is due; infinity if neither is in the future.

        0 if the step is under way: its first record may be due in a moment.
        """
        if self.step.under_way:
            return 0.0
        ahead = [instant for instant in (self.run_after, self.step.next_at) if instant and not self.has_come(instant)]
        return (min(ahead) - self.now).total_seconds() if ahead else float("inf")


class TickResult(NamedTuple):
    """The changes of one tick: records emitted, promoted, put off to the next opening or dropped at it, and rescued."""

    emitted: int
    promoted: int
    closed: int
    rescued: int


def look(queues: Sequence[str] = (), now: datetime | None = None) -> Due:
    """Ask what is due at `now` (aware; the database's clock by default), in one query that changes nothing."""
    step = registry.step
    values = {"queues": list(queues), "now": now, **step.values(now or timezone.now())}
    columns = "".join(f",\n       {column}" for column in step.columns)
    row = execute(LOOK.format(step=columns), values).fetchall()[0]
    instant, run_after, closes_at, lease_expires_at, probe_at, ready, *rest = row
    found = step.found(instant, tuple(rest))
    return Due(instant, run_after, closes_at, lease_expires_at, probe_at, frozenset(ready), found)


def tick(now: datetime | None = None, *, rescue: bool = True) -> TickResult:
    """Do everything that is due at `now` (aware; the database's clock by default), once."""
    return act_on(look(now=now), now=now, rescue=rescue, emit_for=EMIT_SECONDS_WITHOUT_WORKERS)


def act_on(
    due: Due,
    *,
    now: datetime | None = None,
    rescue: bool = True,
    unchanged: Collection[rescuing.Lease] | None = None,
    emit_for: float = EMIT_SECONDS,
) -> TickResult:
    """Do the work that a look has found due. `now` replaces the database's clock for leases, in tests. `unchanged`: the
    leases that may be rescued (`rescuing.rescue`). `emit_for`: seconds after which the rest of the emission is left for
    the next tick."""
    move_for = emit_for * STEP_SECONDS / EMIT_SECONDS
    emitted = _done(registry.step.name, lambda: registry.step.do(due.now, emit_for), due.step.is_due)
    promoted = _done("promote", lambda: promote(due.now, move_for), emitted or due.has_come(due.run_after))
    let_through = partial(breakers.let_trials_through, due.now, move_for)
    promoted += _done("let trials through", let_through, due.has_come(due.probe_at))
    # records promoted just now may be past their window
    closed = _done("close windows", lambda: close_windows(due.now, move_for), promoted or due.has_come(due.closes_at))
    is_rescuing = rescue and due.lease_expires_at and (unchanged or due.has_come(due.lease_expires_at))
    rescued = _done("rescue", lambda: rescuing.rescue(unchanged=unchanged, now=now), is_rescuing)
    return TickResult(emitted, promoted, closed, rescued)


def _done(what: str, step: Callable[[], int], if_due: object) -> int:
    """Do a step if it is due; if it raises, the other steps continue. Raises: django.db.Error if the
    database is away.
    """
    try:
        return step() if if_due else 0
    except Exception as error:
        log_unless_away(log, f"cannot {what}, trying again at the next tick", error)
        return 0


def promote(now: datetime, seconds: float = STEP_SECONDS) -> int:
    """Move waiting records whose time has come to ready, for some `seconds`. Returns how many."""
    return until_done(lambda: len(promotion.make_ready(PROMOTE, {"now": now, "limit": BATCH})), BATCH, seconds)
