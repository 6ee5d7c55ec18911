"""The line of a ready record: the number of records before it, by the key that decides, the first of these, and
whether throttles let it through.

The order is that of the claim (`jobs/order.py`), and the room of a throttle comes from the database function that the
claim uses; `operations/backlog/throttling.py` ranks as the claim does. The records before a record are a few ranges of
the index `backlog_claim_order` in each lane, one for each deciding key, so no more rows are read than are counted,
however long the backlog is.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property, partial
from typing import Any

from django.db import connection

from jobs import conf, order, priorities
from jobs.models import BacklogRecord, Lane
from jobs.order import claim_key
from jobs.states import Status
from operations.backlog.throttling import Head, Rooms, let_through

COUNTED = 5_000
"""The most records that are counted before a record, and in a queue."""
LEAST_COUNTED = 500
"""The lowest bound of the count in a lane, however many lanes there are."""
MOST_LANES = 200
"""The most lanes that are all examined. If there are more, only those that share a throttle are, up to this number."""
SHOWN = 4
"""Records that are named."""
FOLLOWED = 100
"""The most records of a lane for which the claim with throttles is simulated."""

OPEN = "(b.closes_at IS NULL OR b.closes_at > %(now)s::timestamptz)"
ORDER = ", ".join(f"b.{key}" for key in order.IN_SQL.split(", "))
IN_LANE = f"b.status = {Status.READY} AND b.queue = %(queue)s::text AND b.lane = l.id AND {OPEN}"

BEFORE = """
SELECT l.id, before.key, count(*)
  FROM unnest(%(lanes)s::int[], %(most)s::int[]) AS l(id, most)
 CROSS JOIN LATERAL (
       SELECT key
         FROM ({ranges}) AS ranges
        LIMIT l.most) AS before
 GROUP BY l.id, before.key
"""

# One contiguous range of `backlog_claim_order`. The order keeps the planner from making a bitmap of the whole range.
RANGE = f"""(
SELECT '{{key}}' AS key
  FROM jobs_backlogrecord b
 WHERE {IN_LANE} AND {{range}}
 ORDER BY {ORDER}
 LIMIT {COUNTED + 1})"""

HEADS = f"""
SELECT b.lane, b.id, b.priority, b.rank_day, b.tried_at, b.expected_seconds,
       COALESCE(NULLIF(b.payload ->> 'title', ''), b.subject)
  FROM unnest(%(lanes)s::int[], %(shown)s::int[]) AS l(id, shown)
 CROSS JOIN LATERAL (
       SELECT *
         FROM jobs_backlogrecord b
        WHERE {IN_LANE}
        ORDER BY {ORDER}
        LIMIT l.shown) AS b
"""

IN_QUEUE = f"""
SELECT count(*)
  FROM unnest(%(lanes)s::int[], %(most)s::int[]) AS l(id, most)
 CROSS JOIN LATERAL (
       SELECT
         FROM jobs_backlogrecord b
        WHERE {IN_LANE}
        ORDER BY {ORDER}
        LIMIT l.most) AS first
"""

# Locked: as the claim counts once it holds the throttles.
ROOM = """
SELECT throttle_id, room
  FROM jobs_room(%(feeding)s::text[], %(feeds)s::text, %(now)s::timestamptz, TRUE, %(ids)s::bigint[])
"""


def rooms_of(queue: str, throttles: Sequence[int], now: datetime) -> dict[int, int]:
    """The room of each of these throttles for records of `queue`; if that feeds another queue, for records that are to
    be asked.
    """
    rule = conf.queue_rules().get(queue)
    values = {"feeding": conf.feeding_queues(), "feeds": rule.feeds if rule else None, "now": now, "ids": [*throttles]}
    with connection.cursor() as cursor:
        cursor.execute(ROOM, values)
        return dict(cursor.fetchall())


@dataclass(frozen=True)
class LineAhead:
    """The line before a ready record. `before`: lane → deciding key → the number of records, up to the bound of the
    count; `heads`: the first records of each lane; `lanes`: lane → its throttles; `all_lanes`: True if those are all
    lanes.
    """

    record: BacklogRecord
    lanes: Mapping[int, Sequence[int]]
    rooms: Rooms
    before: Mapping[int, "Counter[str]"]
    heads: Sequence[Head]
    in_queue: int
    all_lanes: bool = True

    def room(self, lane: int) -> int | None:
        """The number of records that its throttles let through; None if any number."""
        known = [self.rooms[each] for each in self.lanes[lane] if each in self.rooms]
        return max(0, min(known)) if known else None

    def taken(self, lane: int) -> int:
        """The number of records before the record in that lane that its throttles let through."""
        count, room = self.before[lane].total(), self.room(lane)
        return count if room is None else min(count, room)

    def contends(self, lane: int) -> bool:
        """True if the lane's records compete with the record: they share a throttle with it, or none of their throttles
        is full.
        """
        own = self.record.lane
        return lane == own or self.room(lane) != 0 or not set(self.lanes[own]).isdisjoint(self.lanes[lane])

    @property
    def ahead(self) -> int:
        """The number of records that come before it, not counting those that other throttles hold back."""
        own = set(self.lanes[self.record.lane])
        alike = {lane for lane, named in self.lanes.items() if lane == self.record.lane or own & set(named)}
        return sum(self.before[lane].total() if lane in alike else self.taken(lane) for lane in self.lanes)

    @property
    def held_ahead(self) -> int:
        """The number of records that would come before it if their throttles had room."""
        return sum(each.total() for each in self.before.values()) - self.ahead

    @property
    def is_exact(self) -> bool:
        """True if all records before it were counted."""
        most = _most_a_lane(len(self.lanes))
        return self.all_lanes and all(each.total() < most for each in self.before.values())

    def by_key(self) -> "Counter[str]":
        """Key → the number of records that it put first, not counting those that another full throttle holds back."""
        passing = (count for lane, count in self.before.items() if self.contends(lane))
        return sum(passing, Counter())

    def first(self) -> list[tuple[Head, str]]:
        """The first records, each with the key that puts it before the record."""
        own = claim_key(self.record)
        passing = [head for head in self.heads if self.contends(head.lane) and claim_key(head) < own]
        return [(head, order.deciding_key(head, self.record)) for head in sorted(passing, key=claim_key)[:SHOWN]]

    def too_many(self) -> Iterator[int]:
        """Its throttles that have at least as many records before it as they have room for."""
        for throttle in self.lanes[self.record.lane]:
            room = self.rooms.get(throttle)
            if room is not None and self.rank(throttle) > room:
                yield throttle

    def rank(self, throttle: int) -> int:
        """The place of the record among the records of one of its throttles."""
        beside = (lane for lane, named in self.lanes.items() if throttle in named and lane != self.record.lane)
        return 1 + self.before[self.record.lane].total() + sum(map(self.taken, beside))

    def let_through(self) -> bool:
        """True if the claim takes it, as far as throttles are concerned."""
        own, room = self.record.lane, self.room(self.record.lane)
        if room is None:
            return True
        if self.before[own].total() >= room:
            return False
        if any(head.id == self.record.pk for head in self.heads):
            return self.record.pk in self._through
        return not any(self.too_many())  # further back than the claim is followed

    @cached_property
    def _through(self) -> set[int]:
        heads: dict[int, list[Head]] = {}
        for head in self.heads:
            heads.setdefault(head.lane, []).append(head)
        rule = conf.queue_rules().get(self.record.queue)
        return let_through(heads, self.lanes, self.rooms, spends=rule is None or rule.feeds is None)


def line_of(record: BacklogRecord, now: datetime) -> LineAhead:
    """The line of a ready record whose window is open, in six statements."""
    return lines_of([record], now)[record.pk]


def lines_of(records: Iterable[BacklogRecord], now: datetime) -> dict[int, LineAhead]:
    """Record id → its line. The facts of a queue are read once, so each further record takes one more statement."""
    every_lane, contest, found = _every_lane(), cache(partial(_contest, now=now)), {}
    for record in records:
        lanes = dict(_sharing(record.lane) if every_lane is None else every_lane)
        lanes.setdefault(record.lane, ())
        at_once = record.lane if is_asked_at_once(record) else None
        rooms, heads, in_queue = contest(record.queue, tuple(lanes.items()), at_once)
        ahead = _before(record, [*lanes], now)
        found[record.pk] = LineAhead(record, lanes, rooms, ahead, heads, in_queue, every_lane is not None)
    return found


def _contest(
    queue: str, lanes: Sequence[tuple[int, Sequence[int]]], asked_at_once: int | None, now: datetime
) -> tuple[Rooms, list[Head], int]:
    """The room in these lanes' throttles for records of a queue, the first records of each lane, and the number of
    records in all lanes. `asked_at_once`: a lane whose throttles hold no record back.
    """
    named_by = dict(lanes)
    throttles = sorted({each for named in named_by.values() for each in named})
    rooms = rooms_of(queue, throttles, now) if throttles else {}
    if asked_at_once is not None:
        rooms |= dict.fromkeys(named_by[asked_at_once], COUNTED)
    shown = [max(SHOWN, min((rooms.get(each, 0) for each in named), default=0)) for named in named_by.values()]
    values: dict[str, Any] = {"queue": queue, "now": now, "lanes": [*named_by], "most": _most_of_each(lanes)}
    values["shown"] = [min(FOLLOWED, each) for each in shown]
    with connection.cursor() as cursor:
        cursor.execute(HEADS, values)
        heads = [Head(*row) for row in cursor.fetchall()]
        cursor.execute(IN_QUEUE, values)
        [[in_queue]] = cursor.fetchall()
    return rooms, heads, in_queue


def _before(record: BacklogRecord, lanes: Sequence[int], now: datetime) -> dict[int, "Counter[str]"]:
    """Lane → the number of records before the record, by the key that put them there."""
    values: dict[str, Any] = {"queue": record.queue, "now": now, "lanes": [*lanes], "most": _most_of_each(lanes)}
    values |= {name: getattr(record, name) for name in order.KEYS}
    found: dict[int, Counter[str]] = {lane: Counter() for lane in lanes}
    with connection.cursor() as cursor:
        cursor.execute(before(record), values)
        for lane, key, count in cursor.fetchall():
            found[lane][key] = count
    return found


def before(record: BacklogRecord) -> str:
    """The statement that counts the records before it."""
    return BEFORE.format(ranges="\nUNION ALL\n".join(_ranges(record)))


def is_asked_at_once(record: BacklogRecord) -> bool:
    """True if it was woken in a queue that feeds another: then its source is asked regardless of its throttles."""
    rule = conf.queue_rules().get(record.queue)
    return rule is not None and rule.feeds is not None and priorities.is_woken(record.priority)


def _most_a_lane(lanes: int) -> int:
    return max(LEAST_COUNTED, COUNTED // lanes) + 1


def _most_of_each(lanes: Sequence[Any]) -> list[int]:
    return [_most_a_lane(len(lanes))] * len(lanes)


def _every_lane() -> dict[int, Sequence[int]] | None:
    """Lane → its throttles, lane 0 among them. None if they are too many to look at."""
    rows = list(Lane.objects.order_by("pk").values_list("pk", "throttle_ids")[: MOST_LANES + 1])
    return {0: (), **{lane: tuple(named) for lane, named in rows}} if len(rows) <= MOST_LANES else None


def _sharing(lane: int) -> dict[int, Sequence[int]]:
    """Lane 0, the lane, and the lanes that share a throttle with it."""
    own = Lane.objects.filter(pk=lane).values_list("throttle_ids", flat=True).first()
    sharing = Lane.objects.filter(throttle_ids__overlap=own or [])
    rows = dict(sharing.order_by("pk").values_list("pk", "throttle_ids")[:MOST_LANES])
    return {0: (), **{each: tuple(named) for each, named in rows.items()}, **({lane: tuple(own)} if own else {})}


def _ranges(record: BacklogRecord) -> Iterator[str]:
    """The ranges before the record, one for each key and for null: records that agree in all earlier keys."""
    same: list[str] = []
    for key in order.KEYS:
        own = getattr(record, key)
        value = f"%({key})s::{CASTS[key]}"
        if key == "priority":
            found = [f"b.priority > {value}"]
        elif key == "id":
            found = [f"b.id < {value}"]
        else:
            found = [] if own is None else [f"b.{key} IS NULL", f"b.{key} < {value}"]
        yield from (RANGE.format(key=key, range=" AND ".join([*same, each])) for each in found)
        same.append(f"b.{key} IS NULL" if own is None else f"b.{key} = {value}")


CASTS = {
    "priority": "int", "rank_day": "date", "tried_at": "timestamptz", "expected_seconds": "float8", "id": "bigint",
}  # fmt: skip
