"""What a record meets in its queue: a pause, no worker, a closed window, a full throttle, and those before it.

The predicates are those of the claim (`jobs/claiming.py`, `jobs/throttles.py`) and of the look-ahead.
"""

from datetime import datetime

from django.db.models import Q

from jobs import conf, throttles
from jobs.durations import span
from jobs.formatting import moment
from jobs.models import BacklogRecord, Lane, PausedQueue, Worker
from jobs.order import claim_key
from jobs.worker.claimer import shortage
from operations.throttles import Live, live

COUNTED = 500
"""Of a lane, no more than so many of those before a record are counted."""

MOST_LANES = 20
"""With more lanes its own is looked at only."""


def of_ready(record: BacklogRecord, now: datetime) -> list[str]:
    """Why a ready record does not run: what keeps its queue from being claimed from, then who stands before it."""
    found = [paused(record, now), closed(record, now), unserved(record, now), *_held(record, now), _enough(record, now)]
    return [*filter(None, found), _position(record, now)]


def paused(record: BacklogRecord, now: datetime) -> str | None:
    queue = PausedQueue.objects.filter(name=record.queue).first()
    if queue is None:
        return None
    why = f" ({queue.reason})" if queue.reason else ""
    for_long = span((now - queue.paused_at).total_seconds())
    return f"its queue {queue.name} has been paused for {for_long}{why}: `{conf.PROGRAM} backlog resume {queue.name}`"


def closed(record: BacklogRecord, now: datetime) -> str | None:
    if record.closes_at is None or record.closes_at > now:
        return None
    return (
        f"its window closed at {moment(record.closes_at)} UTC: it waits for the next opening once a tick has seen that"
    )


def unserved(record: BacklogRecord, now: datetime) -> str | None:
    if Worker.alive(now).filter(queues__has_key=record.queue).exists():
        return None
    return f"no worker that is alive serves its queue: `{conf.PROGRAM} worker --queues {record.queue}`"


def _held(record: BacklogRecord, now: datetime) -> list[str]:
    """Its throttles that let no more records through now."""
    lane = Lane.objects.filter(pk=record.lane).first() if record.lane else None
    found = live(lane.throttle_ids, now) if lane else []
    return [reason for live in found if (reason := _if_held(live, record.queue))]


def _if_held(live: Live, queue: str) -> str | None:
    throttle, most = live.throttle, live.throttle.max_in_flight
    if most == 0:
        return f"its throttle {throttle}: until `{conf.PROGRAM} throttles resume {throttle.name!r} N` none begins"
    rule = conf.queue_rules().get(queue)
    if rule is not None and rule.feeds is not None:
        return _if_asked_enough(live, rule.feeds)
    if live.in_flight >= most:
        return f"its throttle {throttle} is full: {live.in_flight} of its records run"
    if live.next_token_in:
        return f"its throttle {throttle} has no token: the next one comes in {span(live.next_token_in)}"
    return None


def _if_asked_enough(live: Live, fed: str) -> str | None:
    throttle, most = live.throttle, live.throttle.max_in_flight
    lanes = list(Lane.objects.filter(throttle_ids__contains=[throttle.pk]).values_list("pk", flat=True))
    ahead = most + (most + 1) // 2
    answered = BacklogRecord.objects.filter(lane__in=lanes, queue=fed).ready()[:ahead].count()
    stand = f"{answered} more stand ready in {fed}"
    if live.in_flight + answered >= ahead:
        return f"its throttle {throttle} is full: {live.in_flight} of its records run, {stand}"
    if live.tokens is not None and throttle.rate is not None:
        soon = int(live.tokens + throttles.AHEAD_SECONDS * throttle.rate)
        if answered >= soon:
            return f"its throttle {throttle} has {soon} tokens within {throttles.AHEAD_SECONDS:g} s: {stand}"
    return None


def _enough(record: BacklogRecord, now: datetime) -> str | None:
    """Whether its queue feeds another one that is not short of records."""
    rule = conf.queue_rules().get(record.queue)
    if rule is None or rule.feeds is None or shortage(rule.feeds, rule.name, now).missing > 0:
        return None
    return f"queue {rule.feeds}, which its queue feeds, has as many ready records as its units need soon"


def _position(record: BacklogRecord, now: datetime) -> str:
    """How many come before it in claim order, as far as that is counted."""
    lanes = [0, *Lane.objects.order_by("pk").values_list("pk", flat=True)[:MOST_LANES]]
    lanes = lanes if len(lanes) <= MOST_LANES else [record.lane]
    before, more, own = 0, False, claim_key(record)
    for lane in lanes:
        ready = BacklogRecord.objects.ready().filter(Q(closes_at=None) | Q(closes_at__gt=now), queue=record.queue)
        head = ready.filter(lane=lane).in_claim_order().defer("payload", "last_error")[:COUNTED]
        keys = [claim_key(other) for other in head]
        ahead = sum(key < own for key in keys)
        before, more = before + ahead, more or ahead == COUNTED
    if more:
        return f"it is ready; more than {before:,} records of queue {record.queue} come before it"
    return f"it is ready, number {before + 1:,} in the claim order of queue {record.queue}"
