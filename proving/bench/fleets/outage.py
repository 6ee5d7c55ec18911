"""A service that many jobs need is down for a day or a week: how often is it called, and how soon are all jobs done?

All jobs are there when the outage begins, each call takes a few seconds in any case, and there are more units than ever
call at once, so that only the retry policy decides. It runs once without a circuit breaker, once with one.
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from jobs import breakers
from jobs.backlog import NewRecord, enqueue
from jobs.handlers import Kind, registry
from jobs.models import BacklogRecord, RetryPolicy
from jobs.outcomes import BreakerTarget, ClaimedRecord, Failed, Outcome, Succeeded
from jobs.states import Status
from proving.bench.virtual import DAY, HOUR, Backlog

KIND = QUEUE = "bench"
UNITS = 200
CALL = 5.0
SERVICE = BreakerTarget("service:bench", "the service")
PATIENCE = 14 * DAY
"""Seconds after the outage until which the run waits for the last jobs. A cap of 1,000,000 s is 11.6 days."""


@dataclass(frozen=True)
class Outage:
    """`jobs` that need a service that is down for `lasts` seconds. `guarded`: a circuit breaker watches over it."""

    lasts: float
    jobs: int = 1_000
    guarded: bool = False
    units: int = UNITS
    seed: int = 1


class Told(NamedTuple):
    """`calls`: the calls in each hour of the outage; `recovered`: seconds from its end until each job was done.

    `gave_up`: jobs that failed for good. `charged`: failures that are counted for jobs at its end.
    """

    calls: list[int]
    recovered: list[float]
    gave_up: int
    charged: int


def run(outage: Outage, policy: RetryPolicy) -> Told:
    """Run one outage from its beginning until all jobs are done. Starts with empty tables."""
    registry.add(Kind(KIND, home_queue=QUEUE))
    unfinished = BacklogRecord.objects.exclude(status__in=[Status.SUCCEEDED, Status.FAILED])

    def handle(record: ClaimedRecord, at: float) -> tuple[float, Outcome]:
        if outage.guarded and (held := breakers.refusal(SERVICE, record)):
            return 0.0, held
        if at < outage.lasts:
            return CALL, Failed("the service does not answer", fault_of=SERVICE if outage.guarded else None)
        return CALL, Succeeded(proves=SERVICE if outage.guarded else None)

    backlog = Backlog(
        outage.units,
        handle,
        queue=QUEUE,
        tick_every=CALL,
        sweeps=policy.as_rule().waits_for_sweeps,
        seed=outage.seed,
    )
    jobs = [NewRecord(f"job {number}") for number in range(outage.jobs)]
    backlog.put(0.0, lambda now: enqueue(KIND, jobs, queue=QUEUE, retry_policy_id=policy.pk, now=now))
    backlog.run(outage.lasts)
    charged = sum(BacklogRecord.objects.values_list("failures", flat=True))
    backlog.run(outage.lasts + PATIENCE, stop=lambda: not unfinished.exists())
    made = Counter(int(tried.start // HOUR) for tried in backlog.tried if tried.called)
    return Told(
        calls=[made[hour] for hour in range(int(outage.lasts // HOUR))],
        recovered=sorted(t.end - outage.lasts for t in backlog.tried if isinstance(t.outcome, Succeeded)),
        gave_up=BacklogRecord.objects.filter(status=Status.FAILED).count(),
        charged=charged,
    )
