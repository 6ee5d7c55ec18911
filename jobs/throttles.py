"""Caps on records in flight and on the number that begin per second, shared by any number of origins: exact across
hosts.

Counting and claiming in one statement overshoots, since a statement sees one snapshot. So, in one transaction but in
separate statements: lock the throttles in id order, then count the running records and take at most the remainder. A
second claim waits at the lock and counts those of the first one. This needs READ COMMITTED, PostgreSQL's default.

The statements are those of the function `jobs_claim_beside_throttles` (`sql/claim_beside_throttles.sql`), so the locks
are held for as long as the server takes. It

1. looks, without locks, which throttled lanes of the queue hold ready records and have room: one probe a lane,
   regardless of its length, and one count of running records, summed by throttle. It takes at most as many of these
   lanes as it should claim records, those with the first records first; if there are none, it claims from lane 0 as in
   a queue without throttles;
2. locks the throttles of the lanes it took;
3. counts again, and claims across lane 0 and those lanes in claim order, ranked in each throttle that a record names.
   Between throttles that a lane shares with others a place may stay free until the next claim; none is taken twice.

If other claims were faster, it returns fewer records than possible, and the lanes that it tried: then other lanes are
tried, each time in a separate transaction, since throttles are locked in id order.

The settle of a lane's record announces room in the lane's throttles. A claim returns the throttles that the ready
records of its queue name: room in these wakes its worker, and no other.

A rate is a token bucket in the throttle's row, read and written under the same lock. Its present content is
`jobs_tokens`: its content at `tokens_at`, and `rate` a second since then, at most its size. The room of a throttle is
the lesser of the rest of its cap and its whole tokens, and the claiming statement subtracts the claimed records. So
over any time T at most its size + rate · T of its records are claimed.

- A record begins when it is claimed. A record that a worker claims and gives back without running it has still spent
  its token: the rate is never exceeded, and after a shutdown some of it is lost.
- A worker that is killed after its claim's commit has spent the tokens; before it, none.
- A clock that is set back adds nothing, and takes nothing: the next claim dates the bucket by the new clock. One that
  is set forward fills the bucket at most.
- An edit of the throttle edits no tokens: a trigger of the table (`jobs_throttle_edited`) counts the inflow by the old
  rate, continues by the new one, and wakes the workers. Running records are left alone when a cap is lowered.

A queue that feeds another is not throttled, the queue that it feeds is: a source that is only asked whether it is there
is not in flight and takes no token. But once a throttle's running and ready records in the fed queue are half as many
again as it lets through, or ready ones are as many as there will be tokens for within 30 seconds, no more of them are
claimed from the feeding queue: a source that waits behind a full throttle is not asked yet, since its answer would be
out of date.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import Error

from jobs import conf, order
from jobs.clock import CLOCK
from jobs.models import Lane
from jobs.outcomes import RECORD_COLUMNS
from jobs.prepared_statements import execute
from jobs.states import Status

# One row at least: the claim itself returns whether any throttle has a rate, so none has to ask for it.
CLAIM_BESIDE_THROTTLES = f"""
SELECT (SELECT id FROM jobs_throttle WHERE rate IS NOT NULL LIMIT 1) IS NOT NULL, named_throttles, tried,
       {RECORD_COLUMNS}
  FROM (SELECT) AS one
  LEFT JOIN jobs_claim_beside_throttles(
       %(queue)s::text, %(limit)s::int, %(worker)s::bigint, %(token)s::uuid, %(lease)s::float8, %(feeding)s::text[],
       %(feeds)s::text, %(tried)s::int[], %(now)s::timestamptz) AS claimed ON TRUE
  LEFT JOIN LATERAL (SELECT (claimed.record).*) AS record ON TRUE
"""

SECONDS_TO_TOKEN = f"(1 - jobs_tokens(t.tokens, t.tokens_at, t.rate, t.burst, {CLOCK})) / t.rate"

# One probe of `backlog_claim_order` for each lane that lacks a token. A lane that also lacks something else, such as
# room in flight, may be found: its bucket fills, and then it is no longer found.
NEXT_TOKEN = f"""
SELECT min(lacking.seconds)
  FROM jobs_lane l
 CROSS JOIN LATERAL (
       SELECT max({SECONDS_TO_TOKEN}) AS seconds
         FROM jobs_throttle t
        WHERE t.id = ANY(l.throttle_ids) AND t.rate IS NOT NULL AND t.max_in_flight > 0) AS lacking
 CROSS JOIN LATERAL (
       SELECT
         FROM jobs_backlogrecord b
        WHERE b.status = {Status.READY} AND b.queue = %(queue)s::text AND b.lane = l.id
        ORDER BY {order.IN_SQL}
        LIMIT 1) AS first
 WHERE lacking.seconds > 0
"""

# A claim locks throttles FOR UPDATE. So a writer that puts thousands of records into a lane locks the lane instead,
# which no claim does. Only the maker of a lane locks its throttles, once, and claims wait for that.
HOLD = "SELECT id FROM {table} WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id FOR KEY SHARE"

AHEAD_SECONDS = 30.0
"""A source is asked if its record will find a token within this time: half of the time for which its answer holds."""

SHORTEST_WAIT_SECONDS = 0.05
"""The time between two claims of a worker because of tokens: at a rate of a thousand a second it claims fifty at once.
"""


def lane_of(throttle_ids: Iterable[int]) -> int:
    """The lane of the records that name these throttles, made at its first use. 0: none."""
    named = key_of(throttle_ids)
    return lanes_of([named])[named]


def key_of(throttle_ids: Iterable[int]) -> tuple[int, ...]:
    """A set of throttles as `lanes_of` names it: ascending, each once."""
    return tuple(sorted(set(throttle_ids)))


def lanes_of(keys: Iterable[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
    """The lanes of any number of sets of throttles (`key_of`), in two queries, three more if some are new.

    They are locked until the transaction ends: a caller that puts records into a lane in the same transaction keeps the
    lane's throttles from being removed in between. A throttle that was removed before lets everything through.
    """
    wanted = set(keys) - {()}
    lanes = {(): 0, **_found(wanted)}
    if missing := wanted - set(lanes):
        # throttles before lanes, as where they are removed
        throttle_ids = sorted({throttle_id for key in missing for throttle_id in key})
        execute(HOLD.format(table="jobs_throttle"), {"ids": throttle_ids})
        Lane.objects.bulk_create([Lane(throttle_ids=list(key)) for key in sorted(missing)], ignore_conflicts=True)
        lanes |= _found(missing)
    lock_lanes(lanes.values())
    return lanes


def lock_lanes(lanes: Iterable[int]) -> None:
    """Keep the throttles of these lanes from being removed until the transaction ends."""
    if ids := sorted(set(lanes) - {0}):
        execute(HOLD.format(table="jobs_lane"), {"ids": ids})


def _found(keys: set[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
    if not keys:
        return {}
    found = Lane.objects.filter(throttle_ids__in=[list(key) for key in keys]).values_list("throttle_ids", "pk")
    return {tuple(throttle_ids): lane for throttle_ids, lane in found}


_rated: set[str] = set()
"""Queues whose last throttled claim saw a throttle with a rate: a hint that saves a statement."""

_named: dict[str, frozenset[int]] = {}
"""Queue → the throttles that its ready records named at its last throttled claim. A hint, right or wrong."""


def named_by_ready(queue: str) -> frozenset[int]:
    """The throttles that ready records of `queue` named at the last claim: when it came back short, one may be full."""
    return _named.get(queue, frozenset())


def claim_beside_throttles(values: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Claim up to `limit` records of `queue` that every throttle lets through. `values`: those of `CLAIM`."""
    queue = values["queue"]
    rule = conf.queue_rules().get(queue)
    feeds = {"feeding": conf.feeding_queues(), "feeds": rule.feeds if rule else None}
    found: list[tuple[Any, ...]] = []
    tried: list[int] = []
    while True:
        limit = {"limit": values["limit"] - len(found), "tried": tried}
        try:
            rows = execute(CLAIM_BESIDE_THROTTLES, {**values, **feeds, **limit}).fetchall()
        except Error:
            if not found:
                raise
            break  # records of the calls before would wait for the ends of their leases
        is_rated, named, lanes, *_ = rows[0]
        found += [row[3:] for row in rows if row[3] is not None]
        # each lane once: if claimed records take no room, or are locked, two lanes would be tried in turn for ever
        if lanes is None or len(found) >= values["limit"]:
            break
        tried = sorted({*tried, *lanes})  # the answer may name those of earlier calls, too
    _named[queue] = frozenset(named or ())
    (_rated.add if is_rated and feeds["feeds"] is None else _rated.discard)(queue)
    return found


def seconds_to_token(queue: str, now: datetime | None = None) -> float | None:
    """Seconds until a ready record of `queue` that lacks nothing but a token finds one.

    None if no record does, as far as is known; without a statement if the last claim met no throttle with a rate.
    """
    if queue not in _rated:
        return None
    row = execute(NEXT_TOKEN, {"queue": queue, "now": now}).fetchone()
    return row[0] if row else None
