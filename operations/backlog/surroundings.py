"""The facts that records meet in their queues: each is looked up once, however many records are asked about."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property
from typing import Any, NamedTuple

from django.db.models import Count, F

from jobs import conf
from jobs.models import Attempt, BacklogRecord, Breaker, Hold, Lane, PausedQueue, Sweep, Worker
from jobs.states import UNFINISHED, AttemptOutcome, WaitingFor
from jobs.worker.claimer import shortage
from operations import hold
from operations.backlog.at_work import progress_known
from operations.backlog.ends import progress_of, rest_of
from operations.backlog.line import rooms_of
from operations.throttles import Live, live

MOST_RUNNING = 500
"""The most running records of a queue that are looked at for the one that ends first."""
NAMED = 3


@dataclass(frozen=True)
class BusyUnits:
    """The units of a queue: the number on living workers, and the number of busy ones. `ends_first`: the running record
    that ends first, and its expected end; None if none is known.
    """

    units: int
    busy: int
    ends_first: tuple[str, "ExpectedEnd"] | None


class ExpectedEnd(NamedTuple):
    """The expected end of a running record, not before now. `by`: the fact that decides it, as text."""

    at: datetime
    by: str


@dataclass(frozen=True)
class Surroundings:
    """The surroundings of the `records` that are asked about at `now`."""

    records: Collection[BacklogRecord]
    now: datetime

    @cached_property
    def on_hold(self) -> Hold | None:
        return hold.held()

    @cached_property
    def paused(self) -> dict[str, PausedQueue]:
        return {queue.name: queue for queue in PausedQueue.objects.all()}

    @cached_property
    def units(self) -> Counter[str]:
        """Queue that a worker serves that is alive → how many of its records they run at once."""
        found: Counter[str] = Counter()
        for queues in Worker.alive(self.now).values_list("queues", flat=True):
            found.update(queues)
        return found

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
        return {found.throttle.pk: found for found in live(ids, self.now, most=0)} if ids else {}

    @cached_property
    def rooms(self) -> Callable[[str], dict[int, int]]:
        """Throttle → its room for records of a queue."""
        return cache(lambda queue: rooms_of(queue, [*self.throttles], self.now) if self.throttles else {})

    @cached_property
    def holders(self) -> Callable[[int], list[str]]:
        """The names of the records that run under a throttle, the longest first, one more than are shown."""

        def find(throttle: int) -> list[str]:
            lanes = Lane.objects.filter(throttle_ids__contains=[throttle]).values_list("pk", flat=True)
            running = BacklogRecord.objects.running().filter(lane__in=[*lanes])
            running = running.exclude(queue__in=conf.feeding_queues()).order_by("started_at", "pk")
            return list(map(title_of, running.only("payload", "subject")[: NAMED + 1]))

        return cache(find)

    @cached_property
    def before_gate(self) -> dict[str, BacklogRecord]:
        """Exclusive key → who has it, of those that the records wait for."""
        keys = {each.exclusive_key for each in self.records if each.waiting_for == WaitingFor.THROTTLE}
        having = BacklogRecord.objects.filter(exclusive_key__in=keys - {None}, status__in=UNFINISHED[1:])
        return {str(each.exclusive_key): each for each in having.select_related("origin", "leased_by")}

    @cached_property
    def put_off(self) -> set[int]:
        """The records that are to be looked at again, though not because their source was silent: they were put off."""
        ids = [each.pk for each in self.records if each.waiting_for == WaitingFor.RECHECK]
        last = Attempt.objects.filter(record__in=ids, number=F("record__attempt"))
        return set(last.filter(outcome=AttemptOutcome.RELEASED).values_list("record", flat=True)) if ids else set()

    @cached_property
    def sated(self) -> dict[str, bool]:
        """Queue that feeds another one → whether that one has enough."""
        rules = {record.queue: conf.queue_rules().get(record.queue) for record in self.records}
        feeding = {name: rule.feeds for name, rule in rules.items() if rule is not None and rule.feeds is not None}
        return {name: shortage(fed, name, self.now).missing <= 0 for name, fed in feeding.items()}

    @cached_property
    def busy(self) -> Callable[[str], BusyUnits]:
        """The busy units of a queue."""

        def find(queue: str) -> BusyUnits:
            running = BacklogRecord.objects.running().filter(queue=queue).only("payload", "subject", *TIMES)
            found = list(running[:MOST_RUNNING])
            known = progress_known(found)
            expected = [(expected_end(each, self.now, known.get(each.pk)), title_of(each)) for each in found]
            first = min(((end, title) for end, title in expected if end), default=None)
            return BusyUnits(self.units[queue], len(found), (first[1], first[0]) if first else None)

        return cache(find)


TIMES = ("started_at", "expected_seconds", "due_day", "attempt")


def title_of(record: BacklogRecord) -> str:
    """The name of a record as it is shown."""
    return str((isinstance(record.payload, dict) and record.payload.get("title")) or record.subject)


def expected_end(record: BacklogRecord, now: datetime, known: Mapping[str, Any] | None) -> ExpectedEnd | None:
    """The expected end of a running record, by its progress (`known`: as `progress_known` returns it) and its last
    duration, as `ends.py` mixes them; None if neither is known. The estimate for a first backup orders it among others,
    and predicts no end.
    """
    if record.started_at is None:
        return None
    progress = progress_of(known or {}, record.started_at, record.attempt, now)
    is_known = record.expected_seconds is not None and record.due_day is not None
    if progress is None and not is_known:
        return None
    so_far = (now - record.started_at).total_seconds()
    learnt = (record.expected_seconds or 0.0) - so_far if is_known else None
    rest = rest_of(so_far, learnt, progress) or 0.0
    return ExpectedEnd(now + timedelta(seconds=rest), "last duration" if progress is None else "progress")
