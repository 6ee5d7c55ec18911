"""Circuit breakers: when a repository fails for everybody, its records wait instead of failing one after the other.

    closed ──(BREAKER_AFTER failures in a row that are its own)──► open ──(a success)──► closed
                                                                  ▲  │
                                                                  └──┘ a trial in vain: the next one later

A handler asks `refusal` before it spends anything, and says of what a failure was the fault (`Failed.fault_of`), of
what a success is the proof (`Succeeded.proves`). The settle counts (`judge`); from the opening on, records that fail
for it or are refused wait for the breaker and are charged with no failure. The tick (`look`) lets the first of them in
claim order through as a trial when its time has come, and all of them once it has closed. Trials follow the Fibonacci
numbers: 1, 1, 2, 3, 5 … times BREAKER_PROBE_SECONDS, at most BREAKER_LONGEST_SECONDS apart.

Locks: records first, then breakers, each in id order; the tick skips what is locked. Michael Nygard describes the
pattern in Release It! (2007).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from jobs import conf, decisions
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Breaker
from jobs.outcomes import MAX_ERROR_LENGTH, Claimed, Failed, Guarded, Held, Outcome, Released, Succeeded
from jobs.prepared import execute
from jobs.retries import Rule, delay
from jobs.states import Status, WaitingFor
from jobs.telling import storable
from jobs.wakeups import notify

BATCH = 1000

TRIAL_PATIENCE = timedelta(minutes=5)
"""What fails for everybody fails soon. A trial that has run for so long is a good sign: one more is let through."""

# Served by `backlog_held`.
LET_THROUGH = f"""
UPDATE jobs_backlogrecord
   SET status = {Status.READY}, waiting_for = NULL, breaker_id = NULL, run_after = %(now)s::timestamptz
 WHERE ctid = ANY(ARRAY(
       SELECT ctid
         FROM jobs_backlogrecord
        WHERE status = {Status.WAITING} AND waiting_for = {WaitingFor.BREAKER} AND breaker_id = %(breaker)s::bigint
        ORDER BY priority DESC, rank_day ASC NULLS FIRST, tried_at ASC NULLS FIRST,
                 expected_seconds ASC NULLS FIRST, id
        LIMIT %(limit)s::int
          FOR UPDATE SKIP LOCKED))
RETURNING id, queue
"""

# Served by `backlog_held`.
HELD = f"""
SELECT count(*)
  FROM jobs_backlogrecord
 WHERE status = {Status.WAITING} AND waiting_for = {WaitingFor.BREAKER} AND breaker_id = %(breaker)s::bigint
"""

Results = Sequence[tuple[Claimed, Outcome]]


def refusal(guarded: Guarded, record: Claimed) -> Held | None:
    """What a handler returns instead of working, when the breaker of what it needs is open; None: go on."""
    breaker = Breaker.objects.filter(key=guarded.key, opened_at__isnull=False).first()
    if breaker is None or breaker.trial_id == record.id:
        return None
    return Held(breaker.pk, f"{told(breaker)}; nothing else is tried until a trial succeeds")


def told(breaker: Breaker) -> str:
    """An open breaker in words, on one line."""
    said = (breaker.last_error.splitlines() or [""])[0]
    return (
        f"the breaker of {breaker} is open since {breaker.opened_at:%Y-%m-%d %H:%M:%S} UTC: "
        f"{breaker.failures} failures in a row, the last one: {said}"
    )


def held_by(breaker: Breaker) -> int:
    """How many records wait for it."""
    return int(execute(HELD, {"breaker": breaker.pk}).fetchall()[0][0])


def probe_after(trials: int) -> timedelta:
    """How long an open breaker waits after so many trials in vain."""
    rule = Rule("fibonacci", {"unit": conf.breaker_probe_seconds()}, conf.breaker_longest_seconds())
    return timedelta(seconds=delay(rule, trials + 1))


def judge(results: Results, now: datetime) -> list[tuple[Claimed, Outcome]]:
    """Count for breakers what these results say, and hold what an open one holds. Runs in the settle's transaction.

    Returns the results: of a failure that an open breaker answers for, and of a refusal, whatever is true now.
    """
    failed = {o.fault_of.key: o.fault_of for _, o in results if isinstance(o, Failed) and o.fault_of}
    proven = {o.proves.key for _, o in results if isinstance(o, Succeeded) and o.proves}
    held = {o.breaker_id for _, o in results if isinstance(o, Held)}
    if not (failed or proven or held):
        return list(results)
    _make_missing(failed)
    troubled = Q(failures__gt=0) | Q(opened_at__isnull=False)
    wanted = Q(key__in=failed) | Q(pk__in=held) | (Q(key__in=proven) & troubled)
    locked = list(Breaker.objects.filter(wanted).select_for_update(no_key=True).order_by("pk"))
    by_key, by_id = {each.key: each for each in locked}, {each.pk: each for each in locked}
    judged = [(record, _judged(record, outcome, by_key, by_id, now)) for record, outcome in results]
    for breaker in locked:
        breaker.save()
    return judged


def _make_missing(failed: dict[str, Guarded]) -> None:
    known = set(Breaker.objects.filter(key__in=failed).values_list("key", flat=True))
    missing = [Breaker(key=key, title=storable(failed[key].title)[:200]) for key in sorted(failed.keys() - known)]
    Breaker.objects.bulk_create(missing, ignore_conflicts=True)


def _judged(
    record: Claimed, outcome: Outcome, by_key: dict[str, Breaker], by_id: dict[int, Breaker], now: datetime
) -> Outcome:
    match outcome:
        case Succeeded(proves=Guarded(key=key)) if breaker := by_key.get(key):
            _close(breaker, f"record {record.id} ({record.subject}) succeeded", now)
        case Failed(fault_of=Guarded() as guarded):
            breaker = by_key[guarded.key]
            breaker.title = storable(guarded.title)[:200]
            _count(breaker, record, outcome.error, now)
            if breaker.is_open:
                return Held(breaker.pk, outcome.error, tried=True)
        case Held(breaker_id=breaker_id):
            breaker_or_none = by_id.get(breaker_id)
            if breaker_or_none is None or not breaker_or_none.is_open:
                return Released("the breaker that it waited for has closed meanwhile")
    return outcome


def _count(breaker: Breaker, record: Claimed, error: str, now: datetime) -> None:
    breaker.failures += 1
    breaker.last_failure_at = now
    breaker.last_error = storable(error)[:MAX_ERROR_LENGTH]
    if breaker.opened_at is None:
        if breaker.failures >= conf.breaker_after():
            breaker.opened_at, breaker.trials, breaker.trial_id = now, 0, None
            breaker.probe_at = now + probe_after(0)
            _log("breaker opened", breaker, f"{told(breaker)}; first trial at {breaker.probe_at:%H:%M:%S} UTC", now)
    elif record.started_at >= breaker.opened_at:  # what had begun before says nothing new
        breaker.trials += 1
        breaker.trial_id = None
        breaker.probe_at = now + probe_after(breaker.trials)
        said = f"trial {breaker.trials} for {breaker} was in vain; the next one at {breaker.probe_at:%H:%M:%S} UTC"
        _log("trial in vain", breaker, said, now)


def _close(breaker: Breaker, why: str, now: datetime) -> None:
    """The next tick lets through what waits for it."""
    if breaker.is_open:
        _log("breaker closed", breaker, f"the breaker of {breaker} closed: {why}", now)
        breaker.probe_at = now
    breaker.failures = breaker.trials = 0
    breaker.opened_at = breaker.trial_id = None


def look(now: datetime) -> int:
    """Let trials through whose time has come, and everything that waits for a breaker that closed. Part of the tick.

    Returns how many records are ready by that.
    """
    moved = 0
    with transaction.atomic():
        due = Breaker.objects.filter(probe_at__lte=now).select_for_update(skip_locked=True, no_key=True)
        for breaker in due.order_by("pk"):
            moved += _let_one_through(breaker, now) if breaker.is_open else _let_all_through(breaker, now)
            breaker.save()
    return moved


def _let_one_through(breaker: Breaker, now: datetime) -> int:
    breaker.probe_at = now + probe_after(0)
    if _is_under_way(breaker.trial_id, now):
        return 0
    chosen = _let_through(breaker, 1, now)
    if not chosen:
        return 0
    breaker.trial_id = chosen[0]
    _log("trial", breaker, f"record {chosen[0]} is let through as a trial for {breaker}", now)
    return 1


def _is_under_way(record_id: int | None, now: datetime) -> bool:
    """Whether a trial will still tell something soon. One that ended otherwise (its source is absent) tells nothing."""
    under_way = BacklogRecord.objects.filter(status__in=[Status.READY, Status.RUNNING])
    trial = under_way.filter(pk=record_id).first() if record_id is not None else None
    if trial is None:
        return False
    return trial.status == Status.READY or trial.started_at is None or now - trial.started_at < TRIAL_PATIENCE


def _let_all_through(breaker: Breaker, now: datetime) -> int:
    moved = 0
    while batch := _let_through(breaker, BATCH, now):
        moved += len(batch)
    # what somebody else holds locked just now is found by the next look
    breaker.probe_at = now + probe_after(0) if held_by(breaker) else None
    return moved


def _let_through(breaker: Breaker, limit: int, now: datetime) -> list[int]:
    rows = execute(LET_THROUGH, {"breaker": breaker.pk, "limit": limit, "now": now}).fetchall()
    for queue in {queue for _, queue in rows}:
        notify(queue)
    return [record_id for record_id, _ in rows]


@transaction.atomic
def close(breaker_ids: Sequence[int], *, now: datetime | None = None, by: str = "a person") -> int:
    """Close open breakers: all that waits for them goes through at the next tick. Returns how many were open."""
    instant = now or database_clock()
    opened = Breaker.objects.filter(pk__in=breaker_ids, opened_at__isnull=False)
    closing = list(opened.select_for_update(no_key=True).order_by("pk"))
    for breaker in closing:
        _close(breaker, f"{by} closed it", instant)
        breaker.save()
    return len(closing)


def probe_now(breaker_ids: Sequence[int], *, now: datetime | None = None) -> int:
    """Let the next trial of open breakers through at the next tick. Returns how many are open."""
    opened = Breaker.objects.filter(pk__in=breaker_ids, opened_at__isnull=False)
    return opened.update(probe_at=now or database_clock())


def _log(what: str, breaker: Breaker, text: str, now: datetime) -> None:
    line = decisions.Line(what, text, "breaker", breaker.key, {"failures": breaker.failures, "trials": breaker.trials})
    decisions.doing_all([line], now)
