"""Wake-on-LAN: the magic packet (AMD, Magic Packet Technology, 1995): FF six times, then the MAC sixteen times.

A packet never implies that the source is up: after one it is asked again, on time and before all others, and it stays
first until a unit has taken it. A packet is sent only while a unit is foreseen: while the execution units are short of
more sources than are waking up. So no computer is woken for which no unit would be free (docs/decisions/0081).
"""

import asyncio
import logging
from datetime import datetime, timedelta

import wakeonlan
from django.db import Error, transaction
from django.db.models import F

from external.network import contact
from jobs import decisions, priorities
from jobs.clock import database_clock
from jobs.outcomes import ClaimedRecord, Unavailable
from jobs.prepared_statements import execute
from jobs.states import UNFINISHED
from jobs.worker.claimer import shortage
from jobs.worker.database_threads import ask_database
from sources.availability import wake_networks
from sources.domain import wake_hours
from sources.models import Assignment, Policy, Source, order_parts
from sources.planning.names import BACKUPS, KIND

log = logging.getLogger(__name__)

LOOKUP_SECONDS = 5.0
"""Seconds to look up a broadcast address that is given as a name. A broadcast without an address is not worth more."""


LATE_SECONDS = 30.0
"""The delay from which on a re-check is late. A computer that a packet has woken may fall asleep again after two
minutes.
"""

SETTLED_WITHIN_SECONDS = 10.0
"""Seconds from a packet to the settle of its record. Until then the source counts as waking up by its row, afterwards
by its record.
"""
REMEMBERED_FOR = timedelta(hours=1)
"""The time for which a packet is looked up: no source takes longer to wake up."""

ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtextextended('wake', 0))"
"""The lock of the question whether a unit is foreseen: its holder sees all packets that were sent for one."""

# Served by `source_woken`, and one descent of `one_unfinished_record_per_subject` an assignment.
WAKING_UP = f"""
SELECT count(*)
  FROM sources_source s
 WHERE s.last_woken_at > %(since)s::timestamptz AND s.last_woken_at <= %(now)s::timestamptz
   AND s.id <> %(source)s::bigint
   AND (s.last_woken_at > %(settled_since)s::timestamptz
        OR EXISTS (
           SELECT
             FROM sources_assignment a
             JOIN jobs_backlogrecord b ON b.kind = '{KIND}' AND b.subject = 'assignment:' || a.id
            WHERE a.source_id = s.id AND b.status IN {tuple(map(int, UNFINISHED))}
              AND b.queue <> '{BACKUPS}' AND b.priority >= {priorities.WOKEN_FROM}))
"""


async def wake_or_wait(record: ClaimedRecord, assignment: Assignment, reason: str) -> Unavailable:
    """The outcome for a record whose source is silent for `reason`: a magic packet is sent if that is allowed."""
    broadcast = await broadcast_address(assignment.source)  # here, where a slow look-up delays nothing else
    return await ask_database(record.queue, _after_silence, record, assignment, reason, broadcast)


def _after_silence(record: ClaimedRecord, assignment: Assignment, reason: str, broadcast: str | None) -> Unavailable:
    source, policy = assignment.source, assignment.policy
    # another policy of the same source may have woken it while this question hung
    source.refresh_from_db(fields=["last_woken_at"])
    if outcome := without_a_packet(record, assignment, reason, database_clock()):
        return outcome
    with transaction.atomic():
        execute(ONE_AT_A_TIME, {})
        now = database_clock()  # read under the lock: a packet that was sent in the meantime is in the past
        if shortage(BACKUPS, now=now).missing <= waking_up(source, now):
            return not_foreseen(record, assignment, reason)
        if error := wake(source, broadcast, now):
            return Unavailable(f"{reason}; {error}", policy.recheck_after)
    text = f"sent a magic packet for {source} to {source.wake_address}:{source.wake_port}"
    decisions.log("woken", text, record=record, now=now)
    return after_a_packet(policy, reason)


def without_a_packet(record: ClaimedRecord, assignment: Assignment, reason: str, now: datetime) -> Unavailable | None:
    """The outcome of a silence at `now` if no packet may be sent. None if one may be, while a unit is
    foreseen. Pure.
    """
    source, policy = assignment.source, assignment.policy
    waking_for = (now - source.last_woken_at).total_seconds() if source.last_woken_at else policy.wake_wait
    if 0 <= waking_for < policy.wake_wait:
        reason = f"{reason}; it was sent a magic packet {waking_for:.0f} s ago"
        return Unavailable(reason, max(1.0, policy.wake_wait - waking_for), woken=True)
    in_vain = priorities.is_woken(record.priority) and is_late(record.started_at, source, policy)
    if not may_wake(source, policy, now, in_vain=in_vain):
        return Unavailable(reason, policy.recheck_after)
    if not wake_hours.allow(assignment.wake_hours, source.last_woken_at, now):
        reason = f"{reason}; no magic packet was sent: it was never there within an hour of {now:%H:%M} UTC"
        return Unavailable(reason, policy.recheck_after)
    return None


def not_foreseen(record: ClaimedRecord, assignment: Assignment, reason: str) -> Unavailable:
    """The outcome of a silence while no unit is foreseen for a source that wakes. The first backup of one that was
    never sent a packet keeps its place, and longer ones give way to it (`sources/availability/giving_way.py`).
    """
    source, policy = assignment.source, assignment.policy
    reason = f"{reason}; no magic packet was sent: no execution unit is foreseen for it"
    keeps_place = record.due_day is None and source.last_woken_at is None and order_parts.in_force().waking
    return Unavailable(reason, min(policy.recheck_after, policy.wake_wait), keeps_place=keeps_place)


def after_a_packet(policy: Policy, reason: str) -> Unavailable:
    """The outcome of a silence after which a packet was sent."""
    return Unavailable(f"{reason}; sent a magic packet", policy.wake_wait, woken=True)


def waking_up(source: Source, now: datetime) -> int:
    """The number of other sources that were sent a packet and have not been asked since, or not been settled."""
    settled_since = now - timedelta(seconds=SETTLED_WITHIN_SECONDS)
    values = {"source": source.pk, "now": now, "settled_since": settled_since, "since": now - REMEMBERED_FOR}
    return int(execute(WAKING_UP, values).fetchall()[0][0])


def is_late(asked_at: datetime, source: Source, policy: Policy) -> bool:
    """True if a re-check at `asked_at` came so late that a source that was woken may be asleep again."""
    if source.last_woken_at is None:
        return False
    return asked_at - source.last_woken_at > timedelta(seconds=policy.wake_wait + LATE_SECONDS)


def may_wake(source: Source, policy: Policy, now: datetime, *, in_vain: bool = False) -> bool:
    """True if a packet is to be sent at `now`: allowed by the source, else its policy, and none sent lately. `in_vain`:
    the last one does not count, since nothing asked in time whether it had worked.

    One in the future (a clock was set back) delays the next one by at most twice `wake_every`.
    """
    allowed = policy.wake_allowed if source.wake_allowed is None else source.wake_allowed
    if not allowed or not source.mac_address:
        return False
    if in_vain:
        return True
    return source.last_woken_at is None or abs(now - source.last_woken_at) >= timedelta(seconds=policy.wake_every)


async def broadcast_address(source: Source) -> str | None:
    """The address for its packet, looked up if it is a name. None if it is not found in time."""
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            return (await contact.addresses_of(source.wake_address))[0]
    except OSError:  # a timeout is one
        return None


def wake(source: Source, address: str | None, now: datetime) -> str | None:
    """Send the packet to its `broadcast_address` and remember when. Returns an error message when it cannot be sent.

    Never raises: a source that cannot be woken is a silent source.
    """
    try:
        if not 1 <= source.wake_port <= 65535:  # the system would take it modulo 65536
            raise ValueError("that is not a port")
        if address is None:
            raise ValueError("no such name")
        wake_networks.check(address)
        wakeonlan.wake(_plain(source.mac_address), host=address, port=source.wake_port)
    except (OSError, ValueError) as error:
        reason = contact.reason(error) if isinstance(error, OSError) else error
        return f"cannot send a magic packet to {source.wake_address}:{source.wake_port}: {reason}"
    log.info("sent a magic packet for %s to %s:%s", source.name, source.wake_address, source.wake_port)
    try:
        with transaction.atomic():  # a point to return to, where a transaction is open
            woken = Source.objects.filter(pk=source.pk)
            remembered = woken.update_unless_locked(last_woken_at=now, wakes=F("wakes") + 1)
    except Error:
        log.exception("cannot remember that %s was sent a magic packet: the next one may come too soon", source.name)
    else:
        if not remembered:
            log.info("%s is being edited: the next magic packet to it may come too soon", source.name)
    return None


def _plain(mac_address: str) -> str:
    """The twelve digits alone. Raises: ValueError for anything but a MAC address."""
    digits = "".join(sign for sign in mac_address if sign not in ":-. ")
    if len(digits) != 12:
        raise ValueError(f"{mac_address!r} is not a MAC address")
    bytes.fromhex(digits)
    return digits
