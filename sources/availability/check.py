"""Queues `availability` and `arrivals`: ask a source whether it is there. Thousands at once, on one event loop.

answers  → handed to the execution units
silent   → woken, if allowed, and first in line three minutes later; else asked again later, demoted

In `arrivals`, where a source has just checked in, it is given some seconds only, so a source that is there does not
wait for one that is not; a source that needs longer goes back to `availability` and has its policy's time.
"""

import asyncio
from datetime import timedelta
from weakref import WeakKeyDictionary

from django.db import Error, close_old_connections

from external.network import contact
from jobs import decisions
from jobs.database_errors import DatabaseTrouble, trouble_of
from jobs.handlers import Run
from jobs.outcomes import Cancelled, ClaimedRecord, Handoff, Outcome, Postponed, Unavailable
from jobs.states import WaitingFor
from jobs.worker.database_threads import ask_database
from sources import planning
from sources.availability import address_tracking, giving_way, probes, repository_breaker, wake
from sources.models import Assignment, Source

ARRIVAL_SECONDS = 5.0
"""Seconds to ask a source that has just checked in: it is there, and answers either at once or not soon."""


def assignment_of(record: ClaimedRecord) -> Assignment | None:
    """The assignment of a backup record, with the rows that a handler needs. None if it is gone.

    `open_breaker`: the id of its repository's breaker, if that is open.
    """
    return _assignments_of([record]).get(planning.assignment_in(record.payload))


def _assignments_of(records: list[ClaimedRecord]) -> dict[int, Assignment]:
    close_old_connections()
    related = Assignment.objects.select_related("source", "policy__schedule", "policy__repository")
    related = related.annotate(open_breaker=repository_breaker.OPEN_BREAKER)
    return related.in_bulk({planning.assignment_in(record.payload) for record in records})


DATABASE_AWAY_SECONDS = 30.0
"""The wait of a record whose handler could not ask the database, so that it does not try in a tight loop."""


def database_away(record: ClaimedRecord, error: Exception) -> Outcome:
    """The outcome when the database did not answer a handler, which is not a failure of the source."""
    again_at = record.started_at + timedelta(seconds=DATABASE_AWAY_SECONDS)
    return Postponed(
        again_at, WaitingFor.RECHECK, f"the database did not answer ({str(error).strip()}); tried again at"
    )


async def ask_source(run: Run) -> Outcome:
    """Contact the source; hand the record on if it answers, else wake it or ask again later."""
    try:
        return await _ask(run.record)
    except Error as error:
        if trouble_of(error) is DatabaseTrouble.OURS:
            raise
        return database_away(run.record, error)
    except OSError as error:
        again_at = run.record.started_at + timedelta(seconds=DATABASE_AWAY_SECONDS)
        return Postponed(again_at, WaitingFor.RECHECK, f"this worker cannot ask ({error.strerror}); asked again at")


async def _ask(record: ClaimedRecord) -> Outcome:
    assignment = await _assignment_or_outcome(record)
    if not isinstance(assignment, Assignment):
        return assignment
    source, policy = assignment.source, assignment.policy
    patience = policy.connect_timeout
    if record.queue == planning.ARRIVALS:
        patience = min(patience, ARRIVAL_SECONDS)
    contact.is_arrival.set(record.queue == planning.ARRIVALS)
    loop = asyncio.get_running_loop()
    asked_at = loop.time()  # the clock by which its patience ends
    if policy.address_follows:
        answer, new_address = await address_tracking.ask_where_it_is(source, patience)
    else:
        answer, new_address = await probes.ask(source, patience), None
    if new_address and not await ask_database(record.queue, _follow, record, source, new_address):
        return Postponed(
            record.started_at + timedelta(seconds=FOLLOWED_AFTER_SECONDS),
            WaitingFor.RECHECK,
            f"it is at {new_address} now, and its address is being edited; asked again at",
        )
    if answer.present:
        return await _answered(record, assignment, answer.text)
    if patience < policy.connect_timeout and loop.time() - asked_at >= patience:
        return asked_longer(assignment, answer.text)
    if not source.mac_address:
        return Unavailable(answer.text, policy.recheck_after)
    return await wake.wake_or_wait(record, assignment, answer.text)


async def _answered(record: ClaimedRecord, assignment: Assignment, found: str) -> Handoff | Postponed:
    gives_way = giving_way.may_give_way(record, assignment.source)
    outcome = await ask_database(record.queue, giving_way.outcome, record, assignment) if gives_way else None
    return outcome or handed_on(assignment, found)


def handed_on(assignment: Assignment, found: str) -> Handoff:
    """The outcome for a record whose source answered: it goes to the execution units."""
    key, lost_at = assignment.source.exclusive_key, assignment.loss.demoted_since
    return Handoff(planning.BACKUPS, exclusive_key=key, found=found, lost_at=lost_at)


def asked_longer(assignment: Assignment, silence: str) -> Handoff:
    """The outcome for a record whose source has checked in and did not answer within moments."""
    text = f"{silence}; it is asked again, with the {assignment.policy.connect_timeout:g} s of its policy"
    return Handoff(planning.AVAILABILITY, found=text, lost_at=assignment.loss.demoted_since)


class _Lookups:
    """Look-ups of one queue, from coroutines of one event loop: the records that come while one look-up is under way
    are looked up together.
    """

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._wanted: dict[int, tuple[ClaimedRecord, asyncio.Future[Assignment | Outcome]]] = {}
        self._loading: asyncio.Task[None] | None = None

    async def find(self, record: ClaimedRecord) -> Assignment | Outcome:
        """Find the assignment of a record, or its outcome. Raises: the errors of the database."""
        _, answer = self._wanted.setdefault(record.id, (record, asyncio.get_running_loop().create_future()))
        if self._loading is None:
            self._loading = asyncio.ensure_future(self._load_all())
        return await asyncio.shield(answer)

    async def _load_all(self) -> None:
        while self._wanted:
            wanted, self._wanted = self._wanted, {}
            try:
                found = await ask_database(self._queue, _look_up, [record for record, _ in wanted.values()])
            except Exception as error:
                for _, answer in wanted.values():
                    answer.set_exception(error)
                    answer.exception()  # seen: perhaps no coroutine waits for it any more
            else:
                for key, (_, answer) in wanted.items():
                    answer.set_result(found[key])
        self._loading = None


_lookups: "WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Lookups]]" = WeakKeyDictionary()


async def _assignment_or_outcome(record: ClaimedRecord) -> Assignment | Outcome:
    """The assignment of a record, or the outcome to give instead of asking its source."""
    of_loop = _lookups.setdefault(asyncio.get_running_loop(), {})
    if record.queue not in of_loop:
        of_loop[record.queue] = _Lookups(record.queue)
    return await of_loop[record.queue].find(record)


def _look_up(records: list[ClaimedRecord]) -> dict[int, Assignment | Outcome]:
    assignments = _assignments_of(records)
    found: dict[int, Assignment | Outcome] = {}
    for record in records:
        assignment = assignments.get(planning.assignment_in(record.payload))
        gone = Cancelled("its assignment is gone")
        found[record.id] = (assignment and _without_asking(assignment, record)) or assignment or gone
    return found


def not_wanted(assignment: Assignment, *, although_retired: bool = False) -> Cancelled | None:
    """The outcome that ends its record, because its backups are no longer wanted. `although_retired`: for kinds
    that continue when the source is retired.
    """
    if assignment.source.retired_at and not although_retired:
        return Cancelled("its source is retired")
    if assignment.source.paused_at and not assignment.source.retired_at:
        return Cancelled("its source is paused")
    if not assignment.policy.schedule.enabled:
        return Cancelled("its policy is disabled")
    return None


def _without_asking(assignment: Assignment, record: ClaimedRecord) -> Outcome | None:
    source, policy, now = assignment.source, assignment.policy, record.started_at
    if refused := not_wanted(assignment):
        return refused
    if reason := source.unwilling(now, on_battery=policy.on_battery, on_metered=policy.on_metered):
        again_at = now + timedelta(seconds=policy.recheck_after)
        return Postponed(again_at, WaitingFor.RECHECK, f"{reason}; looked at again at")
    return repository_breaker.refusal(assignment, record)


FOLLOWED_AFTER_SECONDS = 10.0
"""The wait of a record whose source has moved while another transaction holds its row, such as an edit."""


def _follow(record: ClaimedRecord, source: Source, address: str) -> bool:
    """Store the address from which its agent checked in, where its pinned host key answered. False if another
    transaction holds the source.
    """
    if not Source.objects.filter(pk=source.pk).update_unless_locked(address=address):
        return False
    text = f"{source} is at {address} now, and no longer at {source.address}: its pinned host key answers there"
    decisions.log("moved", text, record=record, facts={"from": source.address, "to": address})
    return True
