"""The obstacles of a record in its queue: a pause, no worker, a closed window, a full throttle, no free unit, and the
records before it.

The predicates are those of the claim (`jobs/claiming.py`, `operations/backlog/line.py`) and of the look-ahead.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from external.durations import span
from external.formatting import moment, several
from jobs import conf, throttles
from jobs.models import BacklogRecord, Lane
from jobs.order import REASONS
from operations import hold
from operations.backlog import attention
from operations.backlog.line import LineAhead, is_asked_at_once
from operations.backlog.reason import Code, Reason
from operations.backlog.surroundings import NAMED, Surroundings
from operations.throttles import Live


def of_ready(record: BacklogRecord, around: Surroundings) -> list[Reason]:
    """The reasons that keep workers from claiming in a ready record's queue."""
    found = [paused(record, around), closed(record, around.now), unserved(record, around)]
    return list(filter(None, [*found, *_held(record, around), _enough(record, around), _no_unit(record, around)]))


def paused(record: BacklogRecord, around: Surroundings) -> Reason | None:
    """The reason that everything is on hold, or else that its queue is paused."""
    if held := around.on_hold:
        facts = {"since": held.since, "by": held.by, "reason": held.reason}
        return Reason(Code.ON_HOLD, hold.clause(held), facts=facts)
    queue = around.paused.get(record.queue)
    if queue is None:
        return None
    words = attention.paused(queue.name, queue.paused_at, queue.reason, queue.paused_until, around.now)
    facts = {"queue": queue.name, "since": queue.paused_at, "reason": queue.reason}
    text = f"its queue {words}: `{conf.PROGRAM} backlog resume {queue.name}`"
    return Reason(Code.QUEUE_PAUSED, text, queue.paused_until, facts)


def closed(record: BacklogRecord, now: datetime) -> Reason | None:
    if record.closes_at is None or record.closes_at > now:
        return None
    then = "it waits for the next opening once a tick has seen that"
    text = f"its window closed at {moment(record.closes_at)} UTC: {then}"
    return Reason(Code.WINDOW, text, facts={"closed_at": record.closes_at})


def unserved(record: BacklogRecord, around: Surroundings) -> Reason | None:
    facts = {"queue": record.queue}
    if not around.units:
        return Reason(Code.UNSERVED, f"no worker is alive: `{conf.PROGRAM} worker` starts one", facts=facts)
    if record.queue in around.units:
        return None
    start = attention.start([record.queue], set(around.units))
    return Reason(Code.UNSERVED, f"no worker that is alive serves its queue: `{start}`", facts=facts)


def _held(record: BacklogRecord, around: Surroundings) -> Iterator[Reason]:
    """The reasons why its throttles let no more records through now."""
    lane = around.lanes.get(record.lane)
    if lane and not is_asked_at_once(record):
        for each in around.throttles:
            if each in lane.throttle_ids and around.rooms(record.queue).get(each, 1) <= 0:
                yield _full(record, around.throttles[each], around)


def _full(record: BacklogRecord, live: Live, around: Surroundings) -> Reason:
    """The reason that a throttle has no room, with the records that hold it."""
    throttle, most, rule = live.throttle, live.throttle.max_in_flight, conf.queue_rules().get(record.queue)
    facts = {"throttle": throttle.name, "in_flight": live.in_flight, "most": most}
    if most == 0:
        resume = f"until `{conf.PROGRAM} throttles resume {throttle.name!r}` none begins"
        return Reason(Code.THROTTLED, f"its throttle {throttle}: {resume}", throttle.paused_until, facts)
    holders = around.holders(throttle.pk)
    facts |= {"held_by": holders[:NAMED]}
    run = "runs" if live.in_flight == 1 else "run"
    runs = f"{live.in_flight} of its records {run}{_named(holders, live.in_flight)}"
    if rule is not None and rule.feeds is not None:
        lanes = list(Lane.objects.filter(throttle_ids__contains=[throttle.pk]).values_list("pk", flat=True))
        ahead = most + (most + 1) // 2
        answered = BacklogRecord.objects.filter(lane__in=lanes, queue=rule.feeds).ready()[:ahead].count()
        facts, are = facts | {"answered": answered}, "is" if answered == 1 else "are"
        stand = f"{answered} more {are} ready in {rule.feeds}"
        if live.in_flight + answered >= ahead or live.tokens is None or throttle.rate is None:
            return Reason(Code.THROTTLED, f"its throttle {throttle} is full: {runs}; {stand}", facts=facts)
        soon = int(live.tokens + throttles.AHEAD_SECONDS * throttle.rate)
        text = f"its throttle {throttle} has {several(soon, 'token')} within {throttles.AHEAD_SECONDS:g} s: {stand}"
        return Reason(Code.THROTTLED, text, facts=facts | {"tokens_soon": soon})
    if live.in_flight >= most or live.next_token_in is None:
        return Reason(Code.THROTTLED, f"its throttle {throttle} is full: {runs}", facts=facts)
    text = f"its throttle {throttle} has no token: the next one comes in {span(live.next_token_in)}"
    until = around.now + timedelta(seconds=live.next_token_in)
    return Reason(Code.THROTTLED, text, until, facts | {"next_token_in": live.next_token_in})


def _named(names: list[str], total: int) -> str:
    rest = total - len(names[:NAMED])
    more = f" and {rest:,} more" if rest > 0 else ""
    return f" ({', '.join(names[:NAMED])}{more})" if names else ""


def _enough(record: BacklogRecord, around: Surroundings) -> Reason | None:
    """The reason that its queue feeds another one that is not short of records."""
    if record.queue not in around.units or is_asked_at_once(record) or not around.sated.get(record.queue):
        return None
    fed = conf.queue_rules()[record.queue].feeds or ""
    facts = {"queue": fed}
    if fed not in around.units:
        text = f"no worker that is alive serves queue {fed}, which its queue feeds: `{conf.PROGRAM} worker`"
        return Reason(Code.UNSERVED, text, facts=facts)
    text = f"queue {fed}, which its queue feeds, has as many ready records as its units need soon"
    return Reason(Code.ENOUGH, text, facts=facts)


def _no_unit(record: BacklogRecord, around: Surroundings) -> Reason | None:
    """The reason that all units of its queue are busy. A queue that only asks is not bound to units."""
    rule = conf.queue_rules().get(record.queue)
    if record.queue not in around.units or (rule is not None and rule.feeds is not None):
        return None
    found = around.busy(record.queue)
    if found.busy < found.units:
        return None
    busy = "its only unit is busy" if found.units == 1 else f"all {several(found.units, 'unit')} are busy"
    text, until = f"no unit of queue {record.queue} is free: {busy}", None
    if found.ends_first:
        title, (until, by) = found.ends_first
        when = f"at {moment(until)} UTC" if until > around.now else "any moment, being late"
        text = f"{text}; by its {by} {title} ends first, {when}"
    return Reason(Code.NO_UNIT, text, until, {"queue": record.queue, "units": found.units, "busy": found.busy})


def behind(line: LineAhead, around: Surroundings) -> Iterator[Reason]:
    """The reasons that the records before it take the room of its throttles; none if its throttles have
    no room at all.
    """
    if line.let_through() or line.room(line.record.lane) == 0:
        return
    found = list(line.too_many()) or line.lanes[line.record.lane]
    for live in (around.throttles[each] for each in found if each in around.throttles):
        throttle, room = live.throttle, line.rooms[live.throttle.pk]
        before = _before_it(line.rank(throttle.pk) - 1, "", line)
        text = f"its throttle {throttle} has room for {several(room, 'more record')}, and {before}"
        yield Reason(Code.THROTTLED, text, facts={"throttle": throttle.name, "room": room})


def _least(line: LineAhead) -> str:
    return "" if line.is_exact else "at least "


def _before_it(count: int, of: str, line: LineAhead) -> str:
    """The number of records before it, as a clause: at least so many if not all were counted."""
    come = "comes" if count == 1 else "come"
    return f"{_least(line)}{several(count, 'record')}{of} {come} before it"


def position(line: LineAhead) -> Reason:
    """Its place in the claim order of its queue, the records before it, and the keys that put them there."""
    queue, ahead, total = line.record.queue, line.ahead, max(line.in_queue, line.ahead + 1)
    first, keys = line.first(), line.by_key()
    more = "" if line.is_exact else "+"
    facts = {
        "position": ahead + 1, "of": total, "exact": line.is_exact, "ahead_by_key": dict(keys),
        "held_ahead": line.held_ahead,
        "ahead": [{"id": head.id, "title": head.title, "key": key, "why": REASONS[key]} for head, key in first],
    }  # fmt: skip
    if line.is_exact:
        text = f"it is ready, number {ahead + 1:,} of {total:,} in the claim order of queue {queue}"
    else:
        text = f"it is ready; {_before_it(ahead, f' of queue {queue}', line)}"
    if first:
        rest = ahead - len(first)
        named = ", ".join(f"{head.title} ({REASONS[key]})" for head, key in first)
        text = f"{text}: first {named}{f', and {rest:,}{more} more' if rest > 0 else ''}"
    if line.held_ahead:
        are, their = ("is", "its") if line.held_ahead == 1 else ("are", "their")
        text = f"{text}; {_least(line)}{line.held_ahead:,} of higher rank {are} held back by {their} throttles"
    return Reason(Code.READY, text, facts=facts)
