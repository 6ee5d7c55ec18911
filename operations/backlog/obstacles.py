"""What a record meets in its queue: a pause, no worker, a closed window, a full throttle, and those before it.

The predicates are those of the claim (`jobs/claiming.py`, `jobs/throttles.py`) and of the look-ahead.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property

from django.db.models import Count, Q

from external.durations import span
from external.formatting import moment
from jobs import conf, throttles
from jobs.models import BacklogRecord, Breaker, Hold, Lane, PausedQueue, Sweep, Worker
from jobs.order import claim_key
from jobs.states import WaitingFor
from jobs.worker.claimer import shortage
from operations import hold
from operations.backlog import attention
from operations.throttles import Live, live

COUNTED = 500
"""Of a lane, no more than so many of those before a record are counted."""

MOST_LANES = 20
"""With more lanes its own is looked at only."""


@dataclass(frozen=True)
class Surroundings:
    """What the `records` that are asked about meet at `now`: each fact is looked up once, however many they are."""

    records: Collection[BacklogRecord]
    now: datetime

    @cached_property
    def on_hold(self) -> Hold | None:
        return hold.held()

    @cached_property
    def paused(self) -> dict[str, PausedQueue]:
        return {queue.name: queue for queue in PausedQueue.objects.all()}

    @cached_property
    def served(self) -> set[str]:
        """Queues that a worker serves that is alive."""
        return {name for queues in Worker.alive(self.now).values_list("queues", flat=True) for name in queues}

    @cached_property
    def breakers(self) -> dict[int, Breaker]:
        return Breaker.objects.in_bulk({record.breaker_id for record in self.records if record.breaker_id})

    @cached_property
    def held(self) -> Counter[int]:
        """Breaker → how many records wait for it."""
        waiting = BacklogRecord.objects.waiting().filter(waiting_for=WaitingFor.BREAKER, breaker__in=self.breakers)
        return Counter(dict(waiting.values_list("breaker").annotate(Count("pk"))))

    @cached_property
    def full_sweeps(self) -> list[Sweep]:
        return list(Sweep.objects.filter(left_some=True))

    @cached_property
    def lanes(self) -> dict[int, Lane]:
        return Lane.objects.in_bulk({record.lane for record in self.records if record.lane})

    @cached_property
    def throttles(self) -> dict[int, Live]:
        ids = sorted({each for lane in self.lanes.values() for each in lane.throttle_ids})
        return {found.throttle.pk: found for found in live(ids, self.now)} if ids else {}

    @cached_property
    def held_by_throttle(self) -> Callable[[int, str], str | None]:
        """Why the throttle lets no more records of that queue through now."""
        return cache(lambda throttle, queue: _if_held(self.throttles[throttle], queue))

    @cached_property
    def sated(self) -> dict[str, bool]:
        """Queue that feeds another one → whether that one has enough."""
        rules = {record.queue: conf.queue_rules().get(record.queue) for record in self.records}
        feeding = {name: rule.feeds for name, rule in rules.items() if rule is not None and rule.feeds is not None}
        return {name: shortage(fed, name, self.now).missing <= 0 for name, fed in feeding.items()}


def of_ready(record: BacklogRecord, around: Surroundings) -> list[str]:
    """What keeps a ready record's queue from being claimed from."""
    found = [paused(record, around), closed(record, around.now), unserved(record, around), *_held(record, around)]
    return list(filter(None, [*found, _enough(record, around)]))


def paused(record: BacklogRecord, around: Surroundings) -> str | None:
    """That everything is on hold, or else its queue."""
    if around.on_hold:
        return hold.sentence(around.on_hold)
    queue = around.paused.get(record.queue)
    if queue is None:
        return None
    words = attention.paused(queue.name, queue.paused_at, queue.reason, queue.paused_until, around.now)
    return f"its queue {words}: `{conf.PROGRAM} backlog resume {queue.name}`"


def closed(record: BacklogRecord, now: datetime) -> str | None:
    if record.closes_at is None or record.closes_at > now:
        return None
    return (
        f"its window closed at {moment(record.closes_at)} UTC: it waits for the next opening once a tick has seen that"
    )


def unserved(record: BacklogRecord, around: Surroundings) -> str | None:
    if not around.served:
        return f"no worker is alive: `{conf.PROGRAM} worker` starts one"
    if record.queue in around.served:
        return None
    return f"no worker that is alive serves its queue: `{attention.start([record.queue], around.served)}`"


def _held(record: BacklogRecord, around: Surroundings) -> list[str]:
    """Its throttles that let no more records through now."""
    lane = around.lanes.get(record.lane)
    named = [each for each in around.throttles if each in lane.throttle_ids] if lane else []
    return [reason for each in named if (reason := around.held_by_throttle(each, record.queue))]


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


def _enough(record: BacklogRecord, around: Surroundings) -> str | None:
    """Whether its queue feeds another one that is not short of records."""
    if record.queue not in around.served or not around.sated.get(record.queue):
        return None
    fed = conf.queue_rules()[record.queue].feeds
    if fed not in around.served:
        return f"no worker that is alive serves queue {fed}, which its queue feeds: `{conf.PROGRAM} worker`"
    return f"queue {fed}, which its queue feeds, has as many ready records as its units need soon"


def position(record: BacklogRecord, now: datetime) -> str:
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
