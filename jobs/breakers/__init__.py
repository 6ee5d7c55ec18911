"""Circuit breakers: when a repository fails for all its records, they wait instead of failing one after the other.

    closed ──(BREAKER_AFTER failures in a row that it counts)──► open ──(a trial succeeds)──► closed
                                                                ▲  │
                                                                └──┘ a trial failed: the next one later

A handler asks `refusal` before it spends anything, and names the cause of a failure (`Failed.fault_of`) and what a
success proves (`Succeeded.proves`). The settle counts (`judge`); once it is open, records that fail because of it or
are refused wait for the breaker, and no failure is counted. When it is time for a trial, the tick
(`let_trials_through`) lets the first of them through, in claim order; those that have been tried since the breaker
opened come last. Once the breaker has closed, it lets them all through. After each failed trial the next one waits 1,
1, 2, 3, 5 … times BREAKER_PROBE_SECONDS, at most BREAKER_LONGEST_SECONDS. After one that proved nothing (it was
unavailable or cancelled, its worker was killed, its window closed) it comes within LOOK_AFTER.

Interruptions: a settle counts and writes its records in one transaction, and a trial is chosen in one. No worker has to
report the result of a trial: the tick looks for it. A record that is let through by mistake is refused again; one that
waits by mistake is promoted after a day (LOOKED_AT_AGAIN_AFTER). Locks: records first, then breakers, each in id order;
the tick, which locks a breaker first, skips locked records. Michael Nygard describes the pattern in Release It! (2007).
"""

from collections.abc import Set
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q, Subquery
from django.db.models.expressions import Combinable

from external.formatting import first_line, several
from jobs import conf, decisions, order
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Breaker
from jobs.outcomes import (
    MAX_ERROR_LENGTH,
    BreakerTarget,
    ClaimedRecord,
    Failed,
    Held,
    Outcome,
    Released,
    Results,
    Succeeded,
)
from jobs.prepared_statements import STEP_SECONDS, storable, until_done
from jobs.promotion import make_ready, statement
from jobs.retries import Rule, delay
from jobs.states import Status, WaitingFor

BATCH = 1000

LOOK_AFTER = timedelta(seconds=5)
"""The delay before looking again at the result of a trial, and at rows that others held locked."""

TRIAL_PATIENCE = timedelta(minutes=5)
"""A repository that fails for everything fails soon. So a trial that has run for this long is a good sign, and one that
has been in its queue for this long shows nothing: one more is let through.
"""

LONGEST_NAME = 200
"""Characters of a key or a title; the name of a host may be longer."""

# All served by `backlog_held`. Only the wait ends; the same tick closes windows next.
WAITS = f"waiting_for = {WaitingFor.BREAKER} AND breaker_id = %(breaker)s::bigint"
IN_ITS_WINDOW = f"{WAITS} AND (closes_at IS NULL OR closes_at > %(now)s::timestamptz)"
# The index yields the order. It skips records that were tried since the opening, some dozens, and closed windows.
UNTRIED = f"{IN_ITS_WINDOW} AND (tried_at IS NULL OR tried_at < %(opened_at)s::timestamptz)"
FIRST_UNTRIED = statement(UNTRIED, order.IN_SQL)
# Sorted, but used only when all that wait have been tried since the opening, so they are few.
TRIED_LONGEST_AGO = statement(IN_ITS_WINDOW, "tried_at, id")
WHATEVER_WAITS = statement(WAITS, order.IN_SQL)


def open_breaker(key: Combinable) -> Subquery:
    """An annotation, so that a handler needs no separate query: the id of the open breaker whose key is the value of
    the expression `key`. None if there is none.
    """
    return Subquery(Breaker.objects.filter(key=key, opened_at__isnull=False).values("pk"))


def refusal(guarded: BreakerTarget, record: ClaimedRecord) -> Held | None:
    """The outcome of a handler in place of its work, if the breaker of its target is open. None if it may work."""
    breaker = Breaker.objects.filter(key=key_of(guarded), opened_at__isnull=False).first()
    if breaker is None or breaker.trial_id == record.id:
        return None
    return Held(breaker.pk, f"{describe(breaker)}; nothing else is tried until a trial succeeds")


def state_of(breaker: Breaker) -> str:
    """Closed, open, or on trial: open, with a record let through."""
    if not breaker.is_open:
        return "closed"
    return "on trial" if breaker.trial_id else "open"


def describe(breaker: Breaker) -> str:
    """An open breaker as text, on one line."""
    return (
        f"the breaker of {breaker} has been open since {breaker.opened_at:%Y-%m-%d %H:%M:%S} UTC: "
        f"{several(breaker.failures, 'failure')} in a row, the last one: {first_line(breaker.last_error)}"
    )


def next_try_at(record: BacklogRecord) -> datetime:
    """The instant at which a waiting record is tried next: behind an open breaker, that of its next trial."""
    breaker = record.breaker if record.waiting_for == WaitingFor.BREAKER else None
    return (breaker and breaker.probe_at) or record.run_after


def held_by(breaker: Breaker) -> int:
    """The number of records that wait for it."""
    return BacklogRecord.objects.waiting().filter(waiting_for=WaitingFor.BREAKER, breaker=breaker).count()


def probe_after(trials: int) -> timedelta:
    """The wait of an open breaker after that many failed trials."""
    rule = Rule("fibonacci", {"unit": conf.breaker_probe_seconds()}, conf.breaker_longest_seconds())
    return timedelta(seconds=delay(rule, trials + 1))


def lock(results: Results, leases: Set[tuple[int, UUID]]) -> list[Breaker]:
    """Lock the breakers that `judge` needs for these results until the settle's transaction ends."""
    owned = [(record, outcome) for record, outcome in results if (record.id, record.lease_token) in leases]
    failed = {key_of(o.fault_of): o.fault_of for _, o in owned if isinstance(o, Failed) and o.fault_of}
    proven = {key_of(o.proves) for _, o in owned if isinstance(o, Succeeded) and o.proves}
    held = {o.breaker_id for _, o in owned if isinstance(o, Held)}
    if not (failed or proven or held):
        return []
    known = set(Breaker.objects.filter(key__in=failed).values_list("key", flat=True))
    missing = [Breaker(key=key, title=title_of(failed[key])) for key in sorted(failed.keys() - known)]
    Breaker.objects.bulk_create(missing, ignore_conflicts=True)
    troubled = Q(failures__gt=0) | Q(opened_at__isnull=False)
    wanted = Q(key__in=failed) | Q(pk__in=held) | (Q(key__in=proven) & troubled)
    return list(Breaker.objects.filter(wanted).select_for_update(no_key=True).order_by("pk"))


def judge(
    results: Results, leases: Set[tuple[int, UUID]], locked: list[Breaker], now: datetime
) -> list[tuple[ClaimedRecord, Outcome]]:
    """Count these results for the `locked` breakers, and hold the records of those that are open.

    `leases`: (record id, lease token) of running records. A result whose lease was lost does not count: it may be hours
    old, or was counted by an earlier try of this settle. Returns the results, in which a failure that an open breaker
    accounts for has become `Held`, and a refusal by a breaker that has closed since has become `Released`.
    """
    judged = [
        _judged(record, outcome, locked, now) if (record.id, record.lease_token) in leases else (record, outcome)
        for record, outcome in results
    ]
    for breaker in locked:
        breaker.save()
    return judged


def key_of(guarded: BreakerTarget) -> str:
    """The key under which its breaker is kept."""
    return storable(guarded.key, LONGEST_NAME)


def title_of(guarded: BreakerTarget) -> str:
    """The title that its breaker has."""
    return storable(guarded.title, LONGEST_NAME)


def _judged(
    record: ClaimedRecord, outcome: Outcome, locked: list[Breaker], now: datetime
) -> tuple[ClaimedRecord, Outcome]:
    by_key = {breaker.key: breaker for breaker in locked}
    match outcome:
        case Succeeded(proves=BreakerTarget() as guarded):
            if breaker := by_key.get(key_of(guarded)):
                _count_success(breaker, record, now)
        case Failed(fault_of=BreakerTarget() as guarded):
            if breaker := by_key.get(key_of(guarded)):
                breaker.title = title_of(guarded)
                _count_failure(breaker, record, outcome.error, now)
                if breaker.is_open:
                    # it keeps its day and its priority, and comes after those that have not been tried
                    held = Held(breaker.pk, outcome.error, tried=True, facts=outcome.facts)
                    return record._replace(tried_at=now), held
        case Held() if not any(each.pk == outcome.breaker_id and each.is_open for each in locked):
            return record, Released("the breaker that it waited for has closed in the meantime")
    return record, outcome


def _count_failure(breaker: Breaker, record: ClaimedRecord, error: str, now: datetime) -> None:
    breaker.failures += 1
    breaker.last_failure_at = now
    breaker.last_error = storable(error, MAX_ERROR_LENGTH)
    if breaker.opened_at is None:
        if breaker.failures >= conf.breaker_after():
            breaker.opened_at, breaker.trials, breaker.trial_id = now, 0, None
            breaker.probe_at = now + probe_after(0)
            write(
                "breaker opened", breaker, f"{describe(breaker)}; first trial at {breaker.probe_at:%H:%M:%S} UTC", now
            )
    elif breaker.trial_id == record.id or record.started_at > breaker.opened_at + LOOK_AFTER:
        # a trial, even an earlier one; a record that was claimed before the opening or right after it proves nothing
        breaker.trials += 1
        if breaker.trial_id == record.id:
            breaker.trial_id = None
        breaker.probe_at = now + probe_after(breaker.trials)
        text = f"trial {breaker.trials} for {breaker} failed; the next one at {breaker.probe_at:%H:%M:%S} UTC"
        write("trial failed", breaker, text, now)


def _count_success(breaker: Breaker, record: ClaimedRecord, now: datetime) -> None:
    """Count a success. That of a record which began before the opening is not proof, since the work may have ended
    before it, too; it is a reason to try at once.
    """
    if breaker.opened_at is not None and record.started_at < breaker.opened_at:
        breaker.probe_at = now
    else:
        shut(breaker, f"record {record.id} ({record.subject}) succeeded", now)


def shut(breaker: Breaker, why: str, now: datetime) -> None:
    """Close a breaker whose row is locked; the caller saves it. The next tick lets its waiting records through."""
    if breaker.is_open:
        write("breaker closed", breaker, f"the breaker of {breaker} closed: {why}", now)
        breaker.probe_at = now
    breaker.failures = breaker.trials = 0
    breaker.opened_at = breaker.trial_id = None


def let_trials_through(now: datetime, seconds: float = STEP_SECONDS) -> int:
    """Let the trials that are due through, and everything that waits for a breaker that has closed. A step of the tick.

    Works for some `seconds`; the next tick does the rest. Returns the number of records that it made ready.
    """
    return until_done(lambda: _let_batches_through(now), 1, seconds)


@transaction.atomic
def _let_batches_through(now: datetime) -> int:
    """Let a batch of each breaker through. Between batches, claims and settles that need the breaker get its lock."""
    moved = 0
    due = Breaker.objects.filter(probe_at__lte=now).select_for_update(skip_locked=True, no_key=True)
    for breaker in due.order_by("pk"):
        moved += _let_one_through(breaker, now) if breaker.is_open else _let_all_through(breaker, now)
        breaker.save()
    return moved


def _let_one_through(breaker: Breaker, now: datetime) -> int:
    breaker.probe_at = now + LOOK_AFTER
    since = now - TRIAL_PATIENCE
    soon = Q(status=Status.READY, run_after__gt=since) | Q(status=Status.RUNNING, started_at__gt=since)
    if BacklogRecord.objects.filter(soon, pk=breaker.trial_id or 0).exists():
        return 0  # it will show something; one that ended otherwise, such as unavailable, showed nothing
    chosen = let_through(FIRST_UNTRIED, breaker, 1, now) or let_through(TRIED_LONGEST_AGO, breaker, 1, now)
    breaker.trial_id = chosen[0] if chosen else None
    if chosen:
        write("trial", breaker, f"record {chosen[0]} is let through as a trial for {breaker}", now)
        return 1
    # the windows of all that wait are closed: made ready, they wait for those instead, or for this breaker again
    moved = len(let_through(WHATEVER_WAITS, breaker, BATCH, now))
    if not moved:
        breaker.probe_at = now + probe_after(0)
    return moved


def correct_clocks(now: datetime | None = None) -> int:
    """Bring back instants of breakers that a wrong clock has dated ahead. Returns how many."""
    instant = now or database_clock()
    furthest = instant + timedelta(seconds=max(conf.breaker_longest_seconds(), conf.breaker_probe_seconds()))
    corrected = Breaker.objects.filter(opened_at__gt=instant).update(opened_at=instant)
    return corrected + Breaker.objects.filter(probe_at__gt=furthest).update(probe_at=instant)


def _let_all_through(breaker: Breaker, now: datetime) -> int:
    moved = len(let_through(WHATEVER_WAITS, breaker, BATCH, now))
    if moved < BATCH:
        # rows that another transaction holds locked are found by a later look
        breaker.probe_at = now + LOOK_AFTER if held_by(breaker) else None
    return moved


def let_through(sql: str, breaker: Breaker, limit: int, now: datetime) -> list[int]:
    """Make records that wait for it ready. Returns their ids."""
    values = {"breaker": breaker.pk, "opened_at": breaker.opened_at, "limit": limit, "now": now}
    return make_ready(sql, values)


def write(what: str, breaker: Breaker, text: str, now: datetime) -> None:
    """A line of the log about a breaker."""
    facts = {"failures": breaker.failures, "trials": breaker.trials}
    decisions.log(what, text, kind="breaker", subject=breaker.key, facts=facts, now=now)
