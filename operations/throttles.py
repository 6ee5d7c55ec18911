"""The state of throttles for users, warnings about one, and their deletion behind locks."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from declarations import InUse, uses
from external.durations import span
from external.formatting import some_of
from jobs import conf
from jobs.clock import CLOCK
from jobs.models import BacklogRecord, Lane, Throttle
from jobs.states import UNFINISHED, Status
from jobs.throttles import SHORTEST_WAIT_SECONDS
from operations.skip_scans import skip_scan

BOUND = 10_000
"""The most ready records that are counted in a lane, and the most waiting records of all."""

# Running records are served by `backlog_running_lane`; ready ones by `backlog_claim_order`, a probe for each queue and
# lane, in its order, or a bitmap of all would be made; waiting ones by `backlog_waiting_until`, the first to be due.
# Materialized, or a join might count once for each of its rows.
LIVE = f"""
WITH queue(name) AS MATERIALIZED ({skip_scan("queue", f"status = {Status.READY}")}
), running AS MATERIALIZED (
    SELECT lane, count(*) AS count
      FROM jobs_backlogrecord
     WHERE status = {Status.RUNNING} AND lane <> 0 AND queue <> ALL(%(feeding)s)
     GROUP BY lane
), ready AS MATERIALIZED (
    SELECT l.id AS lane, sum(counted.count) AS count, bool_or(counted.count > %(bound)s) AS more
      FROM jobs_lane l
     CROSS JOIN queue
     CROSS JOIN LATERAL (
           SELECT count(*) AS count
             FROM (SELECT
                     FROM jobs_backlogrecord b
                    WHERE b.status = {Status.READY} AND b.queue = queue.name AND b.lane = l.id
                    ORDER BY b.priority DESC, b.rank_day ASC NULLS FIRST, b.tried_at ASC NULLS FIRST,
                             b.expected_seconds ASC NULLS FIRST, b.id
                    LIMIT %(bound)s + 1) AS first) AS counted
     GROUP BY l.id
), first_waiting AS MATERIALIZED (
    SELECT lane
      FROM jobs_backlogrecord
     WHERE status = {Status.WAITING}
     ORDER BY run_after
     LIMIT %(bound)s + 1
), waiting AS MATERIALIZED (
    SELECT lane, count(*) AS count FROM first_waiting WHERE lane <> 0 GROUP BY lane
), counts AS (
    SELECT named.id, sum(running.count) AS in_flight, sum(ready.count) AS ready, sum(waiting.count) AS waiting,
           bool_or(ready.more) AS more_ready
      FROM jobs_lane l
     CROSS JOIN LATERAL unnest(l.throttle_ids) AS named(id)
      LEFT JOIN running ON running.lane = l.id
      LEFT JOIN ready ON ready.lane = l.id
      LEFT JOIN waiting ON waiting.lane = l.id
     GROUP BY named.id
)
SELECT t.*, jobs_tokens(t.tokens, t.tokens_at, t.rate, t.burst, {CLOCK}) AS tokens_now,
       COALESCE(counts.in_flight, 0)::int AS in_flight, COALESCE(counts.ready, 0)::int AS ready,
       COALESCE(counts.waiting, 0)::int AS waiting, COALESCE(counts.more_ready, FALSE) AS more_ready,
       (SELECT count(*) FROM first_waiting) > %(bound)s AS more_waiting
  FROM jobs_throttle t
  LEFT JOIN counts ON counts.id = t.id
 WHERE %(ids)s::bigint[] IS NULL OR t.id = ANY(%(ids)s)
 ORDER BY t.name
"""


@dataclass(frozen=True)
class Live:
    """The state of a throttle at this moment.

    `in_flight`: its running records, without those that are only asked whether they are there. `ready` and `waiting`:
    those on the backlog; at least this many for a name in `at_least`. `tokens`: the content of its bucket, and
    `next_token_in` the seconds until that is a whole token (0: now); None without a rate.
    """

    throttle: Throttle
    in_flight: int
    ready: int
    waiting: int
    tokens: float | None
    next_token_in: float | None
    at_least: frozenset[str] = frozenset()

    def describe(self, name: str) -> str:
        """The number of that name as text, such as `10,001+`."""
        return f"{getattr(self, name):,}{'+' if name in self.at_least else ''}"

    @property
    def state(self) -> str:
        """The reason why its next record would not begin, as one word, or `open`."""
        if self.throttle.max_in_flight == 0:
            return "paused"
        if self.in_flight >= self.throttle.max_in_flight:
            return "full"
        return "no token" if self.next_token_in else "open"

    @property
    def shown(self) -> dict[str, str]:
        """All its values as text, by their headings in lists; a text is empty if the throttle has no rate."""
        throttle, next_in = self.throttle, self.next_token_in
        return {
            "state": self.state,
            "in flight": f"{self.in_flight:,} of {throttle.max_in_flight:,}",
            "ready": self.describe("ready"),
            "waiting": self.describe("waiting"),
            "rate": f"{throttle.rate:g} a second, burst {throttle.bucket_size:g}" if throttle.rate else "",
            "tokens": "" if self.tokens is None else f"{self.tokens:.1f}",
            "next token": "" if next_in is None else f"in {span(next_in)}" if next_in else "now",
        }


def remove(asked: Iterable[Throttle]) -> None:
    """Delete these throttles, all or none. Raises: InUse for one that an origin or an unfinished record names.

    Behind locks, so that no record comes under one in the meantime. A process that puts records into a lane holds it
    from the look-up to its commit (`throttles.lanes_of`), or holds the throttles while it makes the lane. Here: the
    throttles in id order, with waiting; then the lanes, without waiting, since claims wait for the throttles. Running
    records are counted after that.
    """
    ids = [throttle.pk for throttle in asked]
    with transaction.atomic():
        held = list(Throttle.objects.select_for_update().filter(pk__in=ids).order_by("pk"))
        lanes = Lane.objects.filter(throttle_ids__overlap=ids)
        free = lanes.select_for_update(skip_locked=True).order_by("pk").values_list("pk", flat=True)
        if len(free) < lanes.count():
            names = some_of([throttle.name for throttle in held])
            raise InUse(f"{names}: records that name it are just being put on the backlog. Try again in a moment.")
        for found in live(ids):
            if obstacle := obstacle_to_removing(found):
                raise InUse(f"{obstacle}. Let them end or cancel them first.")
        for throttle in held:
            for use_of in uses:
                if used := use_of(throttle):
                    raise InUse(f"{used}.")
            throttle.delete()


def obstacle_to_removing(found: Live) -> str:
    """The unfinished records that name it: they would continue unthrottled. Empty if there are none."""
    counts = {"run": found.in_flight, "are ready": found.ready, "wait": found.waiting}
    counted = ", ".join(f"{count:,} {does}" for does, count in counts.items() if count)
    if counted:
        return f"{found.throttle.name}: of the records that name it {counted}"
    # waiting records are counted only up to the bound
    lanes = Lane.objects.filter(throttle_ids__contains=[found.throttle.pk]).values("pk")
    is_named = BacklogRecord.objects.filter(lane__in=lanes, status__in=UNFINISHED).exists()
    return f"{found.throttle.name}: of the records that name it some are unfinished" if is_named else ""


def warnings(throttle: Throttle, found: Live | None = None) -> list[str]:
    """Sentences about settings that may not be intended: a pause, or a burst that keeps the rate from being reached."""
    messages = []
    if throttle.max_in_flight == 0:
        held = f", {found.ready:,} are ready" if found and found.ready else ""
        messages.append(f"0 means paused: none of its records begins{held}; running ones continue")
    reached = throttle.bucket_size / SHORTEST_WAIT_SECONDS
    if throttle.rate and throttle.rate > reached:
        messages.append(
            f"with a burst of {throttle.burst} a worker begins {reached:g} a second at most, not {throttle.rate:g}: "
            f"it comes {1 / SHORTEST_WAIT_SECONDS:g} times a second"
        )
    return messages


def live(ids: Iterable[int] | None = None, now: datetime | None = None, *, most: int | None = None) -> list[Live]:
    """The numbers of these throttles, by name (None for all), in one query. `now` (aware) replaces the clock.

    No more than `most` (None for `BOUND`) ready records of a lane are counted, and of waiting records the first in all.
    """
    with connection.cursor() as cursor:
        named = None if ids is None else list(ids)
        cursor.execute(
            LIVE, {"ids": named, "feeding": conf.feeding_queues(), "now": now, "bound": BOUND if most is None else most}
        )
        names = [column.name for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    fields = [field.attname for field in Throttle._meta.concrete_fields]
    return [_live(Throttle.from_db("default", fields, [row[name] for name in fields]), row) for row in rows]


def _live(throttle: Throttle, row: dict[str, Any]) -> Live:
    tokens = row["tokens_now"]
    next_in = None if tokens is None or throttle.rate is None else max(0.0, (1 - tokens) / throttle.rate)
    more = frozenset(name for name in ("ready", "waiting") if row[f"more_{name}"])
    return Live(throttle, row["in_flight"], row["ready"], row["waiting"], tokens, next_in, more)
