"""Takeover of records whose worker is lost: step 4 of the lease protocol (`jobs/claiming.py`).

A lease that was given while the database's clock was set back looks expired as soon as the clock is right again, and no
reading of a clock shows another worker that it is fresh. But a living owner renews it four times in the time of a
lease. So a worker rescues only leases that it has seen unchanged, by its own clock, for longer than an owner continues
without a renewal. No step of the database's clock can mislead it.
"""

import logging
from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import transaction

from jobs import conf
from jobs.claimed_rows import all_claimed
from jobs.clock import CLOCK, boot_seconds, database_clock
from jobs.outcomes import RECORD_COLUMNS, ClaimedRecord, Failed, Released
from jobs.prepared_statements import execute
from jobs.set_aside import SetAside
from jobs.settling import SettleResult, settle_in_parts
from jobs.states import Status

log = logging.getLogger(__name__)

BATCH = 1000

_set_aside = SetAside()
"""Records that a rescue could not settle."""

Lease = tuple[int, datetime]
"""A record's id and the instant at which its lease expires, which every claim and every renewal changes."""

CLAIMED_COLUMNS = f"{RECORD_COLUMNS}, leased_by_id, lease_token"

LEASES = f"SELECT id, lease_expires_at FROM jobs_backlogrecord WHERE status = {Status.RUNNING}"

# Served by `backlog_lease_expires`. A start of the record or a heartbeat of its worker that is in the future was dated
# by a clock that was ahead: such a lease is over once it was seen unchanged for long enough. An end in the far future
# alone does not show that, since other workers may have longer leases. For one lease after a start of the server
# nothing is rescued, since the workers could not renew while it was down.
EXPIRED = f"""
SELECT {CLAIMED_COLUMNS}
  FROM jobs_backlogrecord
 WHERE status = {Status.RUNNING}
   AND (lease_expires_at <= {CLOCK}
        OR %(ids)s::bigint[] IS NOT NULL
           AND (started_at > {CLOCK}
                OR EXISTS (SELECT FROM jobs_worker w WHERE w.id = leased_by_id AND w.heartbeat_at > {CLOCK})))
   AND (%(ids)s::bigint[] IS NULL
        OR (id, lease_expires_at) IN (SELECT * FROM unnest(%(ids)s::bigint[], %(instants)s::timestamptz[])))
   AND id <> ALL(%(set_aside)s::bigint[])
   AND pg_postmaster_start_time() NOT BETWEEN {CLOCK} - %(lease)s::float8 * interval '1 second' AND {CLOCK}
 ORDER BY lease_expires_at
 LIMIT {BATCH}
   FOR UPDATE SKIP LOCKED
"""

# Served by `backlog_lease_expires`: running records are few.
STRAYS = f"""
SELECT {CLAIMED_COLUMNS}
  FROM jobs_backlogrecord
 WHERE status = {Status.RUNNING} AND leased_by_id = %(worker)s::bigint
   AND (id, lease_token) NOT IN (SELECT * FROM unnest(%(ids)s::bigint[], %(tokens)s::uuid[]))
 ORDER BY id
"""

FREE_STRAYS = f"{STRAYS}  FOR UPDATE SKIP LOCKED"


class LeaseWatch:
    """Watches which leases of all workers change. It reads them eight times per lease, so that it delays no rescue."""

    def __init__(self) -> None:
        self._first_seen: dict[Lease, float] = {}
        self._looked_at = self._read_at = float("-inf")

    def look(self) -> None:
        """Must be called at every look of its worker while there are leases. Raises: django.db.Error."""
        now = boot_seconds()
        if now - self._looked_at > conf.lease_seconds() / 2:
            self._first_seen = {}  # the machine slept or the database was away: others could not renew either
        self._looked_at = now
        if now - self._read_at >= conf.lease_seconds() / 8:
            leases, now = execute(LEASES, {}).fetchall(), boot_seconds()
            self._first_seen = {lease: self._first_seen.get(lease, now) for lease in leases}
            self._read_at = now

    def unchanged(self) -> list[Lease]:
        """The leases whose owners would have renewed them by the last look, or have stopped their runs."""
        until = self._looked_at - conf.deadline_seconds() - conf.ending_seconds()
        return [lease for lease, seen_at in self._first_seen.items() if seen_at <= until]


def release_strays(*, worker_id: int, known: Collection[ClaimedRecord]) -> bool:
    """Give back records that this worker owns without knowing it: claims whose COMMIT was lost on the way.

    Must be called after a broken connection, with the records that the worker does run, repeatedly until it returns
    True: none is left. It does not wait for a record that another transaction holds locked.
    """
    ids, tokens = [each.id for each in known], [each.lease_token for each in known]
    values = {"worker": worker_id, "ids": ids, "tokens": tokens}
    lost = Released("its claim was committed, but the answer never reached the worker")
    with transaction.atomic():
        if strays := _all_claimed(FREE_STRAYS, values):
            settle_in_parts([(record, lost) for record in strays])
        return not execute(STRAYS, values).fetchall()


def rescue(*, unchanged: Collection[Lease] | None = None, now: datetime | None = None) -> int:
    """Settle expired leases as failures, by the retry policy. Returns how many.

    Nothing is rescued for one lease after a start of the database: an outage would rescue all. `unchanged`: only these
    leases, if they are still unchanged; None for all, as far as the database's clock can be trusted. Records that
    cannot be settled are set aside for a minute.
    """
    instant = now or database_clock()
    lost = Failed("the worker was lost: it died, or could not reach the database for a whole lease", rescued=True)
    ids, instants = (None, None) if unchanged is None else ([each[at] for each in unchanged] for at in (0, 1))
    values = {
        "lease": conf.lease_seconds(), "ids": ids, "instants": instants, "now": now,
        "set_aside": _set_aside.at(instant),
    }  # fmt: skip
    with transaction.atomic():
        expired = _all_claimed(EXPIRED, values)
        settled = settle_in_parts([(record, lost) for record in expired], now=now) if expired else SettleResult()
    _set_aside.put({record.id for record in expired} - settled.written - settled.lost - settled.locked, instant)
    for record in expired:
        if record.id in settled.written:
            log.warning("rescued %s %s from worker %s", record.kind, record.subject, record.worker_id)
    return len(settled.written)


def _all_claimed(sql: str, values: dict[str, Any]) -> list[ClaimedRecord]:
    return all_claimed(execute(sql, values).fetchall())
