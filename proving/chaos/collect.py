"""Reads tables, journals and logs into facts."""

import re
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from django.db import connection

from jobs import conf
from jobs.clock import boot_seconds
from jobs.models import Attempt, BacklogRecord, RetryPolicy, Worker
from jobs.states import AttemptOutcome, Status
from proving.chaos import journal
from proving.chaos.facts import DID_NOT_END, AttemptFact, Deeds, Journal, ProcessFact, RecordFact, Samples, StormFacts
from proving.chaos.fleet import Fleet

EXPECTED_ERRORS = (
    "handler of", "could not renew the lease of", "stopping it", "this machine's clock is",
    "the event loop has not turned",
)  # fmt: skip
"""Errors that a storm causes. An event loop is noticed after a fraction of the lease, which is short in a storm: on a
busy machine it may wait for a processor that long. One that ends its worker is not expected.
"""
ERROR_LINE = re.compile(
    r" ERROR +\S+ (?P<message>.*)|(?P<thread>Exception in thread .*)|.*(?P<deadlock>deadlock detected.*)"
)
MAX_COMPLAINTS = 20


def facts(fleet: Fleet, deeds: Deeds, samples: Samples, caps: dict[int, int], *, drained: bool) -> StormFacts:
    """The facts that the audit judges. All workers must have ended."""
    journals = [journal.read(member.journal, member.pid) for member, _ in fleet.gone]
    stands_still_after = conf.lease_seconds() / 4
    processes = {
        process.pid: replace(process, stood=standstills(written, process, stands_still_after))
        for (_, process), written in zip(fleet.gone, journals, strict=True)
    }
    return StormFacts(
        lease_seconds=conf.lease_seconds(),
        caps=caps,
        feeding=frozenset(conf.feeding_queues()),
        records=_records(),
        attempts=_attempts(),
        executions=[execution for written in journals for execution in written.executions],
        processes=processes,
        worker_pids=dict(Worker.objects.values_list("pk", "pid")),
        bookings=_bookings(),
        deeds=deeds,
        samples=samples,
        drained=drained,
        complaints=complaints(member.log for member, _ in fleet.gone),
    )


def standstills(written: Journal, process: ProcessFact, longest: float) -> tuple[tuple[float, float], ...]:
    """The spans in which a process wrote nothing for more than `longest` seconds, without its start-up and its end."""
    instants = sorted(written.pulses)
    if instants and process.how in ("killed", "poisoned", DID_NOT_END):
        instants.append(process.ended)
    return tuple((one, next_) for one, next_ in pairwise(instants) if next_ - one > longest)


def complaints(logs: Iterable[Path]) -> list[str]:
    """The errors in the workers' logs that no deed of the storm explains."""
    found = []
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            match = ERROR_LINE.search(line)
            if match and not any(words in line for words in EXPECTED_ERRORS):
                found.append(f"{log.name}: {line.strip()}")
    return found[:MAX_COMPLAINTS]


def _records() -> dict[int, RecordFact]:
    to_boot = boot_seconds() - time.time()
    tries = dict(RetryPolicy.objects.values_list("pk", "max_failures"))
    return {
        record.pk: RecordFact(
            id=record.pk,
            kind=record.kind,
            queue=record.queue,
            subject=record.subject,
            status=Status(record.status),
            attempt=record.attempt,
            failures=record.failures,
            max_failures=tries[record.retry_policy_id] if record.retry_policy_id else None,
            cancelled_at=record.cancel_requested_at.timestamp() + to_boot if record.cancel_requested_at else None,
            leased=record.leased_by_id is not None,
        )
        for record in BacklogRecord.objects.iterator()
    }


def _attempts() -> dict[int, list[AttemptFact]]:
    to_boot = boot_seconds() - time.time()
    found: dict[int, list[AttemptFact]] = defaultdict(list)
    rows = Attempt.objects.order_by("record_id", "number").values_list(
        "record_id", "number", "queue", "worker_id", "started_at", "ended_at", "outcome"
    )
    for record_id, number, queue, worker_id, started_at, ended_at, outcome in rows.iterator():
        started, ended = started_at.timestamp() + to_boot, ended_at.timestamp() + to_boot
        found[record_id].append(
            AttemptFact(record_id, number, queue, worker_id or 0, started, ended, AttemptOutcome(outcome))
        )
    return found


def _bookings() -> list[tuple[int, int]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT record_id, attempt FROM chaos_booking")
        return [(record_id, attempt) for record_id, attempt in cursor.fetchall()]
