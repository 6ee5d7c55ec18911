"""Queue `availability`: ask a source whether it is there. Hundreds at once, on the worker's event loop.

answers  → handed to the execution units
silent   → woken, if allowed, and first in line three minutes later; else asked again later, demoted
"""

import asyncio
from datetime import timedelta

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.db.utils import Error

from jobs import decisions
from jobs.clock import database_clock
from jobs.database_errors import Trouble, trouble_of
from jobs.handlers import Run
from jobs.outcomes import Cancelled, Claimed, Handoff, Outcome, Postponed, Unavailable
from jobs.states import WaitingFor
from sources import contact, guarding, moved, planning, wake
from sources.conditions import unwilling
from sources.models import Assignment, Source


def assignment_of(record: Claimed) -> Assignment | None:
    """The assignment of a backup record, with what a handler needs; None: it is gone.

    `open_breaker`: the id of its repository's breaker, if that is open.
    """
    close_old_connections()
    related = Assignment.objects.select_related("source", "policy__schedule", "policy__repository")
    related = related.annotate(open_breaker=guarding.OPEN_BREAKER)
    return related.filter(pk=record.payload["assignment"]).first()


DATABASE_AWAY_SECONDS = 30.0


def database_away(record: Claimed, error: Exception) -> Outcome:
    """The database did not answer a handler: nobody's failure, and no reason to try again in a tight circle."""
    again_at = record.started_at + timedelta(seconds=DATABASE_AWAY_SECONDS)
    return Postponed(
        again_at, WaitingFor.RECHECK, f"the database did not answer ({str(error).strip()}); tried again at"
    )


async def ask_source(run: Run) -> Outcome:
    """Contact the source; hand the record on if it answers, else wake it or ask again later."""
    try:
        return await _ask(run)
    except Error as error:
        if trouble_of(error) is Trouble.OURS:
            raise
        return database_away(run.record, error)


async def _ask(run: Run) -> Outcome:
    assignment, refusal = await sync_to_async(_look_up)(run.record)
    if assignment is None or refusal is not None:
        return refusal or Cancelled("its assignment is gone")
    source, policy = assignment.source, assignment.policy
    answer, new_address = await moved.ask_where_it_is(source, policy, policy.connect_timeout)
    if new_address:
        await sync_to_async(_follow)(run.record, source, new_address)
    if answer.present:
        return Handoff(planning.BACKUPS, exclusive_key=source.exclusive_key, said=answer.said)
    may_be_woken = await _where_to_wake_is_known(source)
    return await sync_to_async(_after_silence)(run.record, assignment, answer.said, may_be_woken)


def _look_up(record: Claimed) -> tuple[Assignment | None, Outcome | None]:
    """The assignment, and what to do instead of asking it, if anything."""
    assignment = assignment_of(record)
    return assignment, _without_asking(assignment, record) if assignment else None


def not_wanted(assignment: Assignment) -> Cancelled | None:
    """What ends its record, because nobody wants its backups any more."""
    if assignment.source.paused_at:
        return Cancelled("its source is paused")
    if not assignment.policy.schedule.enabled:
        return Cancelled("its policy is disabled")
    return None


def _without_asking(assignment: Assignment, record: Claimed) -> Outcome | None:
    source, policy, now = assignment.source, assignment.policy, record.started_at
    if refused := not_wanted(assignment):
        return refused
    if source.snoozed_until and source.snoozed_until > now:
        return Postponed(source.snoozed_until, WaitingFor.SNOOZE, "its user wants no backup before")
    if reason := unwilling(source, policy, now):
        again_at = now + timedelta(seconds=policy.recheck_after)
        return Postponed(again_at, WaitingFor.RECHECK, f"{reason}; looked at again at")
    return guarding.refusal(assignment, record)


def _follow(record: Claimed, source: Source, address: str) -> None:
    """The source is where its agent said: its pinned host key answered there."""
    Source.objects.filter(pk=source.pk).update(address=address)
    text = f"{source} is at {address} now, and no more at {source.address}: its pinned host key answers there"
    decisions.doing("moved", text, record=record, facts={"from": source.address, "to": address})


async def _where_to_wake_is_known(source: Source) -> bool:
    """Look up the broadcast address, if it is a name: here, where that holds up nobody else."""
    if not source.mac_address or contact.is_address(source.wake_address):
        return True
    try:
        await asyncio.wait_for(contact.addresses_of(source.wake_address), wake.LOOKUP_SECONDS)
    except OSError:  # a timeout is one
        return False
    return True


def _after_silence(record: Claimed, assignment: Assignment, said: str, may_be_woken: bool) -> Outcome:
    policy, source = assignment.policy, assignment.source
    now = database_clock()
    # another policy of the same source may have woken it while this question hung
    source.refresh_from_db(fields=["last_woken_at"])
    waking_for = (now - source.last_woken_at).total_seconds() if source.last_woken_at else policy.wake_wait
    if 0 <= waking_for < policy.wake_wait:
        said = f"{said}; it was sent a magic packet {waking_for:.0f} s ago"
        return Unavailable(said, max(1.0, policy.wake_wait - waking_for), first_in_line=True)
    if not wake.may_wake(source, policy, now):
        return Unavailable(said, policy.recheck_after)
    place = f"{source.wake_address}:{source.wake_port}"
    error = wake.wake(source, now) if may_be_woken else f"cannot send a magic packet to {place}: no such name"
    if error is not None:
        return Unavailable(f"{said}; {error}", policy.recheck_after)
    decisions.doing("woken", f"sent a magic packet for {source} to {place}", record=record, now=now)
    return Unavailable(f"{said}; sent a magic packet", policy.wake_wait, first_in_line=True)
