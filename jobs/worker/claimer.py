"""Claims of a worker: from each queue that is worth a claim, as many records as keep its places busy; and the distance
by which a queue that feeds another may run ahead of it.

If `availability` feeds `backups`, a source is asked while the units are short of sources that have answered. Some of
those are silent, and most that answer do so at once; so as many again are asked every moment, until enough have
answered. Silent ones delay no other, and no more sources are asked ahead than units can use soon. A woken source is
asked on time without a shortage: it would be asleep again by the next one. A unit was planned for it when its packet
was sent.
"""

from datetime import datetime
from typing import NamedTuple

from django.db import connection
from django.db.models.functions import Now

from external.sockets import sockets
from jobs import claiming, conf, priorities, throttles
from jobs.clock import boot_seconds
from jobs.conf import QueueRule
from jobs.handlers import registry
from jobs.models import Worker
from jobs.states import Status
from jobs.throttles import SHORTEST_WAIT_SECONDS
from jobs.worker.hints import Hints
from jobs.worker.units import Units

NOTED_EVERY_SECONDS = 60.0
"""Seconds between notes that all sockets are open."""

PATIENCE_SECONDS = 0.1
"""Seconds after which a source without an answer counts as silent, and the next one is asked as well."""

ASKED_PER_PLACE = 2
"""Records asked about at once for each that the units are short of."""

# Each count is served by a partial index and bounded by the number of units, or by the limit. Ready records count as
# far as their throttles have room and tokens: those behind a full throttle keep no unit busy.
SHORTAGE = f"""
WITH alive AS (
    SELECT queues
      FROM jobs_worker
     WHERE stopped_at IS NULL
       AND heartbeat_at > COALESCE(%(now)s::timestamptz, clock_timestamp()) - %(lease)s * interval '1 second'
), units AS (
    SELECT COALESCE(sum((queues ->> %(queue)s)::int), 0) AS all_units,
           count(*) FILTER (WHERE queues ? %(feeder)s) AS feeders
      FROM alive
), running AS (
    SELECT count(*) AS busy FROM jobs_backlogrecord WHERE status = {Status.RUNNING} AND queue = %(queue)s
), waiting AS (
    SELECT lane, count(*) AS count
      FROM (SELECT lane FROM jobs_backlogrecord WHERE status = {Status.READY} AND queue = %(queue)s LIMIT 10000) AS head
     GROUP BY lane
), lane_room AS (
    SELECT l.id AS lane, min(GREATEST(0, throttle.room)) AS room
      FROM waiting
      JOIN jobs_lane l ON l.id = waiting.lane
     CROSS JOIN LATERAL unnest(l.throttle_ids) AS named(id)
      JOIN jobs_room(%(feeding)s, NULL, COALESCE(%(now)s::timestamptz, clock_timestamp()), TRUE) AS throttle
        ON throttle.throttle_id = named.id
     GROUP BY l.id
), ready AS (
    SELECT COALESCE(sum(LEAST(waiting.count, lane_room.room)), 0) AS ready
      FROM waiting
      LEFT JOIN lane_room USING (lane)
), woken AS (
    SELECT count(*) AS woken
      FROM (SELECT 0 AS id UNION ALL SELECT id FROM jobs_lane) AS l
     CROSS JOIN LATERAL (
           SELECT
             FROM jobs_backlogrecord
            WHERE status = {Status.READY} AND queue = %(feeder)s AND lane = l.id
              AND priority >= {priorities.WOKEN_FROM}
            LIMIT 1000) AS first
)
SELECT (all_units - busy + (all_units + 1) / 2 - ready)::int, feeders, woken FROM units, running, ready, woken
"""


class Shortage(NamedTuple):
    """`missing`: ready records that a queue is short of; `feeders`: workers alive that serve the queue feeding it;
    `woken`: records of that queue that are ready and were woken."""

    missing: int
    feeders: int
    woken: int = 0


def shortage(queue: str, feeder: str = "", now: datetime | None = None) -> Shortage:
    """The number of ready records that `queue` is short of: its free units plus half of all, less the ready ones.

    The units are those of all workers alive: with a heartbeat within the last lease. Zero or less: it has enough, so
    the queue that feeds it need not be claimed.
    """
    values = {"queue": queue, "feeder": feeder, "feeding": conf.feeding_queues(), "now": now}
    with connection.cursor() as cursor:
        cursor.execute(SHORTAGE, {**values, "lease": conf.lease_seconds()})
        return Shortage(*cursor.fetchone())


def to_ask(short: Shortage, asked_lately: int) -> int:
    """The number of further records of the feeding queue that this worker claims now, with `asked_lately` of its
    records under way.

    Several workers that serve it share the work.
    """
    share = -(-ASKED_PER_PLACE * short.missing // max(1, short.feeders))
    return max(0, share - asked_lately)


class Claimer:
    """Claims as many records as `units` have room for, from the queues of `rules` that have ready ones by `hints`."""

    def __init__(self, rules: list[QueueRule], units: Units, hints: Hints, worker_id: int) -> None:
        self._rules, self._units, self._hints, self._worker_id = rules, units, hints, worker_id
        self._no_socket_noted_at = float("-inf")
        self._token_found_at: dict[str, float] = {}

    def claim_what_fits(self) -> int:
        """Returns how many records were claimed. Raises: django.db.Error."""
        return sum(self._claim_from(rule) for rule in self._rules)

    def _claim_from(self, rule: QueueRule) -> int:
        queue, room = rule.name, self._units.room(rule.name)
        if not room and rule.feeds and sockets.left <= 0:
            self._note_no_socket()
        if not room or not self._hints.take(queue):
            return 0
        limit, woken = self._worth_asking(queue, rule.feeds) if rule.feeds else (room, 0)
        asked = self._claim_woken(queue, min(room, woken)) if woken else 0
        if limit and min(room, limit) <= asked:
            self._hints.again(queue, PATIENCE_SECONDS)
        limit = min(room, limit) - asked  # they are first in line among all that are asked
        if limit <= 0:
            return asked
        sent_at = boot_seconds()
        claimed = claiming.claim(queue, worker_id=self._worker_id, limit=limit)
        if len(claimed) == limit:
            if rule.feeds:
                self._hints.again(queue, PATIENCE_SECONDS)
            else:
                self._hints.add(queue)
        if claimed:
            self._units.start(claimed, sent_at)
        self._hints.blocked(queue, throttles.named_by_ready(queue), since=sent_at)
        if len(claimed) < limit and (seconds := self.seconds_to_token(queue)) is not None:
            self._hints.again(queue, seconds)
        for each in registry.at_claim:
            each(queue, claimed, limit, self._worker_id)
        return asked + len(claimed)

    def _claim_woken(self, queue: str, limit: int) -> int:
        sent_at = boot_seconds()
        claimed = claiming.claim_woken(queue, worker_id=self._worker_id, limit=limit)
        if claimed:
            self._units.start(claimed, sent_at)
        return len(claimed)

    def _worth_asking(self, queue: str, fed: str) -> tuple[int, int]:
        """The number of records of `queue` to claim for the queue that it feeds; and the number of ready ones that were
        woken, which wait for no shortage and no throttle.
        """
        short = shortage(fed, queue)
        if short.missing <= 0:
            self._hints.add(queue)  # asked again when something ends
            return 0, short.woken
        limit = to_ask(short, self._units.begun_lately(queue, PATIENCE_SECONDS))
        if not limit:
            self._hints.again(queue, PATIENCE_SECONDS)
        return limit, short.woken

    def seconds_to_token(self, queue: str) -> float | None:
        """Seconds until a ready record of `queue` finds a token; None if none lacks one. The database is asked at most
        once in `SHORTEST_WAIT_SECONDS`.
        """
        now = boot_seconds()
        if now - self._token_found_at.get(queue, float("-inf")) < SHORTEST_WAIT_SECONDS:
            return SHORTEST_WAIT_SECONDS
        seconds = throttles.seconds_to_token(queue)
        if seconds is None:
            return None
        self._token_found_at[queue] = now
        return max(SHORTEST_WAIT_SECONDS, seconds)

    def _note_no_socket(self) -> None:
        """Note it for the doctor."""
        if (now := boot_seconds()) >= self._no_socket_noted_at + NOTED_EVERY_SECONDS:
            self._no_socket_noted_at = now
            Worker.objects.filter(pk=self._worker_id).update(out_of_sockets_at=Now())
