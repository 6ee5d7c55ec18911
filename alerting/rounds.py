"""The round of a minute: find problems, raise and end alerts, announce them, ping. It runs in a thread: a hundred
thousand alerts at once take seconds, and no worker's loop may stop for that long.

Every worker and qcluster comes here each minute; the first in a minute does the round, so each notices the death of the
other. If none came for a while, the machine or the database was down, and nothing counts as late because of that time:
time is counted from `resumed_at` on.
"""

import asyncio
import logging
import threading
from datetime import datetime, timedelta

from django.conf import settings

from alerting import announcements, raising, sending, watching
from alerting.models import Watch
from jobs.clock import database_clock
from jobs.prepared_statements import execute

log = logging.getLogger(__name__)

EVERY = timedelta(seconds=50)
"""Less than a minute: the processes that come are not in step."""
GAP = timedelta(seconds=150)
"""Time without a round after which standstill is counted from the beginning again."""


_one_at_a_time = threading.Lock()


def in_background() -> int:
    """Do the round in a thread, unless this process has one under way."""
    if not _one_at_a_time.locked():
        sending.start_thread(_round_alone)
    return 0


def _round_alone() -> None:
    with _one_at_a_time:
        round_of_the_minute()


def round_of_the_minute(now: datetime | None = None, boot: float | None = None) -> int:
    """Do the round at `now` (aware; the database's clock by default) and `boot` (seconds of the boot clock). Returns
    how many alerts were changed and messages written."""
    watch = _take(now)
    if watch is None:
        sending.in_background()
        return 0
    instant = watch.looked_at
    found, unexamined = watching.look(watch, instant, boot)
    raised = raising.look(instant, found, unexamined)
    changed = raised.changed + (announcements.announce(instant) if raised.are_to_announce else 0)
    is_broken = any(each.kind in watching.BROKEN for each in found)
    # while nothing counts as late, a round that finds nothing proves nothing
    if settings.PING_URL and not is_broken and instant - watch.resumed_at >= watching.GRACE:
        sending.start_thread(ping_for_the_scheduler)
    if raised.are_to_send or changed:
        sending.in_background()
    return changed


def ping_for_the_scheduler() -> None:
    """The dead-man ping: a service (healthchecks and compatible) raises an alarm when it no longer comes. A policy's
    comes after each of its backups (`backups/copying/notifications.py`). Both by the client of callbacks, under its
    rules of where it may go. Blocks for some seconds at most, and logs what is wrong."""
    from delivery.http.ping import get  # the HTTP client takes 0.4 s, which no command should wait for

    if problem := asyncio.run(get(settings.PING_URL)):
        log.warning("the dead-man ping of the scheduler did not arrive: %s", problem)


# Another process that looks at the same moment does not wait, and finds this minute's round taken.
TAKE = """
WITH clock AS MATERIALIZED (
SELECT COALESCE(%(now)s::timestamptz, clock_timestamp()) AS now
), last AS MATERIALIZED (
SELECT id, clock.now, clock.now - looked_at AS since, clock.now >= looked_at AS is_past
  FROM alerting_watch
 CROSS JOIN clock
   FOR UPDATE OF alerting_watch SKIP LOCKED
)
UPDATE alerting_watch
   SET looked_at = last.now,
       resumed_at = CASE WHEN last.is_past AND last.since < %(gap)s THEN resumed_at ELSE last.now END
  FROM last
 WHERE alerting_watch.id = last.id AND NOT (last.is_past AND last.since < %(every)s)
RETURNING alerting_watch.id, looked_at, resumed_at
"""


def _take(now: datetime | None) -> Watch | None:
    """The watch, with this minute's round taken; None if another process has it. A clock that was set back does not end
    the rounds.
    """
    if taken := execute(TAKE, {"now": now, "gap": GAP, "every": EVERY}).fetchone():
        pk, looked_at, resumed_at = taken
        return Watch(pk=pk, looked_at=looked_at, resumed_at=resumed_at)
    if Watch.objects.exists():
        return None
    now = now or database_clock()
    made = Watch.objects.bulk_create([Watch(pk=1, looked_at=now, resumed_at=now)], ignore_conflicts=True)
    return made[0]
