"""A worker that kills itself with SIGKILL at one step of the protocol: `python doomed_worker.py`.

Its environment: DOOMS names the step of each ("" lives), and QUEUES the queues that it serves, both in JSON: several
are forked, and the first process ends when all are dead, with how many were not killed. RUNS is the file to which each
handler's beginning and end is written, WORKER_READY the one that says that it has started. Each queue has kinds of its
own, "plain QUEUE", "booked QUEUE" and "poison QUEUE". The protocol is not changed: only what it calls is called and
then followed, or preceded, by the end.
"""

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import django

gc.disable()  # until all modules are loaded, as in manage.py
django.setup()

from django.db import connection, transaction  # noqa: E402

from jobs import claiming, settling, throttles  # noqa: E402
from jobs.conf import QueueRule  # noqa: E402
from jobs.handlers import Kind, Run, one_by_one, registry  # noqa: E402
from jobs.models import RetryPolicy  # noqa: E402
from jobs.outcomes import ClaimedRecord, Outcome, Succeeded  # noqa: E402
from jobs.worker.process import WorkerProcess  # noqa: E402
from proving.chaos.facts import EXIT_CODE_OF_POISON  # noqa: E402

gc.enable()

RUNS = os.open(os.environ["RUNS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
CONCURRENCY = int(os.environ.get("CONCURRENCY", "4"))


def one_of(lives: list[tuple[str, list[str]]]) -> tuple[str, list[str]]:
    """Becomes a process for each, if there are several."""
    if len(lives) == 1:
        return lives[0]
    forked = []
    for life in lives:
        if not (pid := os.fork()):
            return life
        forked.append(pid)
    sys.exit(sum(os.waitpid(pid, 0)[1] != signal.SIGKILL for pid in forked))


DOOM, QUEUES = one_of(list(zip(json.loads(os.environ["DOOMS"]), json.loads(os.environ["QUEUES"]), strict=True)))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def note(what: str, run: Run) -> None:
    os.write(RUNS, f"{what} {run.record.id} {run.record.attempt} {os.getpid()}\n".encode())


def noted(work: Callable[[Run], Any]) -> Callable[[Run], Outcome]:
    def handler(run: Run) -> Outcome:
        note("began", run)
        work(run)
        note("ended", run)
        return Succeeded()

    return handler


def work(run: Run) -> None:
    if DOOM == "in the handler":
        die()
    time.sleep(run.record.payload.get("seconds", 0))


def poison(run: Run) -> None:
    os._exit(EXIT_CODE_OF_POISON)


def book(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    """A row that goes with the settle or not at all."""
    if isinstance(outcome, Succeeded):
        RetryPolicy.objects.create(name=f"booked {record.id}", algorithm="constant")


real_execute, real_settle = claiming.execute, settling.settle


def in_a_transaction(sql: str, values: dict[str, Any]) -> Any:
    """Die where the effects of a statement are there, and not committed."""
    with transaction.atomic():
        answer = real_execute(sql, values)
        if answer.rowcount:
            die()
    return answer


def execute_until_doom(sql: str, values: dict[str, Any]) -> Any:
    claims = sql == claiming.CLAIM
    if DOOM == "before the claim's commit" and claims:
        return in_a_transaction(sql, values)
    if DOOM == "in the settle" and sql in (settling.SETTLE, settling.SETTLE_SUCCEEDED):
        return in_a_transaction(sql, values)
    answer = real_execute(sql, values)
    if DOOM == "after the claim's commit" and claims and answer.rowcount:
        assert not connection.in_atomic_block
        die()
    return answer


def capped_until_doom(sql: str, values: dict[str, Any]) -> Any:
    return in_a_transaction(sql, values) if DOOM == "holding the throttle's lock" else real_execute(sql, values)


def settle_until_doom(results: settling.Results, **options: Any) -> settling.SettleResult:
    if DOOM == "before the settle":
        die()
    settled = real_settle(results, **options)
    if DOOM == "after the settle's commit":
        assert settled.written
        die()
    return settled


if DOOM:
    claiming.execute = settling.execute = execute_until_doom
    throttles.execute = capped_until_doom
    settling.settle = settle_until_doom  # type: ignore[assignment]

for queue in QUEUES:
    for name, does, hook in (("plain", work, None), ("booked", work, book), ("poison", poison, None)):
        registry.add(Kind(f"{name} {queue}", home_queue=queue, after_settle=hook and one_by_one(hook)))
        registry.handler(f"{name} {queue}", queue=queue)(noted(does))

worker = WorkerProcess([QueueRule(queue, CONCURRENCY) for queue in QUEUES], grace=5)
worker.install_signal_handlers()
Path(os.environ["WORKER_READY"]).touch()
sys.stderr.write(f"doom: {DOOM or 'none'}\n")
worker.run()
