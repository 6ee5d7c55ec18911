"""Wakes workers: NOTIFY announces that a queue has ready records, or that a throttle has room again.

It is a separate NOTIFY after the COMMIT, and at most one per process and queue or throttle in `QUIET_SECONDS`: with
each commit it cost more than half of the insert throughput, since commits queue up behind one lock. A woken worker
looks again when that time is over, so it finds records that were not announced; its poll is the backstop.
"""

import time
from collections.abc import Callable, Collection, Iterable
from threading import Lock

from django.db import transaction

from jobs.models import Lane
from jobs.prepared_statements import execute

CHANNEL = "jobs_ready"
ROOM_CHANNEL = "jobs_room"
QUIET_SECONDS = 0.002
MOST_IN_A_PAYLOAD = 300
"""Throttles, of up to 20 digits each: a payload has less than 8,000 bytes."""

heard_here: Callable[[str], None] | None = None
room_here: Callable[[Collection[int]], object] | None = None
"""The worker in this process, if there is one: called directly instead of through the database, and without limit."""

_lock = Lock()
_last_sent: dict[str | int, float] = {}

_of_lane: dict[int, frozenset[int]] = {}
"""Lane → its throttles. Lanes never change."""


EVERY_QUEUE = "*"


def notify(queue: str) -> None:
    """Wake idle workers of `queue` when the running transaction commits (now, outside of one)."""
    transaction.on_commit(lambda: _announce_ready(queue))


def notify_at_once(queue: str) -> None:
    """Wake idle workers of `queue` likewise, but however recently that was done: for work that a user waits for."""
    _send(CHANNEL, queue)
    if (heard := heard_here) is not None:
        transaction.on_commit(lambda: heard(queue))


def notify_of_room(lanes: Iterable[int]) -> None:
    """Wake workers whose claims a throttle of these lanes limits, when the running transaction commits: its records
    have given back their places.
    """
    wanted = set(lanes) - {0}
    if unknown := wanted - _of_lane.keys():
        found = Lane.objects.filter(pk__in=unknown).values_list("pk", "throttle_ids")
        _of_lane.update((lane, frozenset(throttle_ids)) for lane, throttle_ids in found)
    if throttle_ids := frozenset().union(*(_of_lane.get(lane, ()) for lane in wanted)):
        transaction.on_commit(lambda: _announce_room(throttle_ids))


def _announce_ready(queue: str) -> None:
    if heard_here:
        heard_here(queue)
    if _is_due(queue):
        _send(CHANNEL, queue)


def _announce_room(throttle_ids: Collection[int]) -> None:
    if room_here:
        room_here(throttle_ids)
    due = [each for each in sorted(throttle_ids) if _is_due(each)]
    if len(due) > MOST_IN_A_PAYLOAD:
        _send(CHANNEL, EVERY_QUEUE)
    elif due:
        _send(ROOM_CHANNEL, ",".join(map(str, due)))


def _is_due(name: str | int) -> bool:
    with _lock:
        now = time.monotonic()
        if now - _last_sent.get(name, float("-inf")) < QUIET_SECONDS:
            return False
        _last_sent[name] = now
        return True


def _send(channel: str, payload: str) -> None:
    execute("SELECT pg_notify(%(channel)s::text, %(payload)s::text)", {"channel": channel, "payload": payload})


CANCEL_CHANNEL = "jobs_cancel"


def notify_cancelled(record_id: int) -> None:
    """Tell the worker that runs this record to stop it, when the running transaction commits. Never limited."""
    _send(CANCEL_CHANNEL, str(record_id))


def notify_held() -> None:
    """Make every worker stop its runs when the present transaction commits."""
    _send(CANCEL_CHANNEL, EVERY_QUEUE)
