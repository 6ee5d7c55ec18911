"""The records that the claim with throttles takes, as a pure function: `jobs/sql/claim_beside_throttles.sql` does the
same behind locks, and a property test compares the two.

Each lane is tried once. Among the lanes with room, a claim first tries as many lanes per throttle as the throttle has
room for, those with the first records first; takes from all their records those that rank within the room of each of
their throttles; and continues with the lanes that are left.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple

from jobs.order import claim_key


class Head(NamedTuple):
    """One of the first of a lane, with the keys of its place."""

    lane: int
    id: int
    priority: int
    rank_day: date | None
    tried_at: datetime | None
    expected_seconds: float | None
    title: str


Rooms = Mapping[int, int]
"""Throttle → how many more of its records a claim lets through now. One that is gone lets through all."""


def let_through(
    heads: Mapping[int, Sequence[Head]], lanes: Mapping[int, Sequence[int]], rooms: Rooms, *, spends: bool
) -> set[int]:
    """The ids of the records that a claim of any number takes. Pure. `heads`: lane → its first records, as many as it
    has room for; `lanes`: lane → its throttles; `spends`: True if claimed records take room, as they do except in a
    queue that feeds another.
    """
    left, rooms, tried = {lane: sorted(found, key=claim_key) for lane, found in heads.items()}, dict(rooms), set[int]()
    through: set[int] = set()
    while chosen := _lanes_to_try({lane: left[lane] for lane in left.keys() - tried}, lanes, rooms):
        named = {lane: [each for each in lanes[lane] if each in rooms] for lane in chosen}
        ranks, passing = Counter[int](), list[Head]()
        most = {lane: min((rooms[each] for each in found), default=None) for lane, found in named.items()}
        for head in sorted((head for lane in chosen for head in left[lane][: most[lane]]), key=claim_key):
            ranks.update(named[head.lane])
            if all(ranks[each] <= rooms[each] for each in named[head.lane]):
                passing.append(head)
        for head in passing:
            left[head.lane].remove(head)
            for each in named[head.lane] if spends else ():
                rooms[each] -= 1
        through |= {head.id for head in passing}
        tried |= chosen
    return through


def _lanes_to_try(heads: Mapping[int, Sequence[Head]], lanes: Mapping[int, Sequence[int]], rooms: Rooms) -> set[int]:
    """The lanes with room in all of their throttles, at most as many per throttle as it has room for: those with the
    first records.
    """
    roomy = {lane for lane, found in heads.items() if found and all(rooms.get(each, 1) > 0 for each in lanes[lane])}
    ranks, chosen = Counter[int](), set[int]()
    for lane in sorted(roomy, key=lambda lane: claim_key(heads[lane][0])):
        ranks.update(lanes[lane])
        if all(ranks[each] <= rooms[each] for each in lanes[lane] if each in rooms):
            chosen.add(lane)
    return chosen
