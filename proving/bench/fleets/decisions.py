"""The decision which source to ask next when units are free: the look-ahead's question and a claim of one record.

The scene: a worker with 16 units, 12 of them busy, two sources that have answered; and `count` due assignments in the
queue `availability`, a fifth of them found silent before. With lanes, half of them belong to a throttle that is full
and come first in the claim order; two fifths belong to two throttles that have room; the rest to none.
"""

import time
from datetime import timedelta
from uuid import uuid4

from django.db import connection
from django.db.models.functions import Now

from jobs import claiming, settling, tick
from jobs.models import BacklogRecord, Throttle, Worker
from jobs.outcomes import Unavailable
from jobs.prepared_statements import prepare_in_this_thread
from jobs.states import Status
from jobs.worker.claimer import shortage, to_ask
from proving.bench.fleets.making import keep_vacuum_away, make_assignments, make_policy
from sources.planning import AVAILABILITY, BACKUPS

UNITS = 16
BUSY = 12
ANSWERED = 2
FULL_AT = 4
"""Cap of the full throttle: it has this many of the busy units, and both sources that have answered."""
ROOMY_AT = 16
SHARES = (0, 0, 0, 0, 0, 1, 1, 2, 2, 3)
"""The policy of each of ten assignments."""
WARM_UP = 20
LONG = timedelta(days=1)

# The state in which a settled silence leaves a record: ranked today, with the instant of the last contact.
TRIED = """
UPDATE jobs_backlogrecord
   SET tried_at = clock_timestamp() - (id * 7919 %% 86400) * interval '1 second',
       rank_day = current_date
 WHERE status = %(ready)s AND id %% 5 = 0
"""


def make_due(count: int, *, lanes: bool) -> None:
    """Make `count` due records (with `lanes`, half of them under a full throttle) and a worker that is busy with
    others.
    """
    policies = [make_policy(0), make_policy(1), make_policy(2), make_policy(3)]
    if lanes:
        for number, cap in enumerate((FULL_AT, ROOMY_AT, ROOMY_AT)):
            schedule = policies[number].schedule
            schedule.throttle = Throttle.objects.create(name=f"throttle {number}", max_in_flight=cap)
            # the full one is first in line: a claim has to skip all of its records
            schedule.priority = len(policies) - number
            schedule.save()
    make_assignments(count + BUSY + ANSWERED, [policies[index] for index in SHARES])
    keep_vacuum_away()
    tick.tick()
    with connection.cursor() as cursor:
        cursor.execute(TRIED, {"ready": Status.READY})
    _occupy(policies[0].schedule_id, policies[3].schedule_id)


def _occupy(full: int, plain: int) -> None:
    """Keep the worker busy: with as many records of schedule `full` as its throttle lets through, and others before
    them.
    """
    worker = Worker.objects.create(name="busy", hostname="bench", pid=1, queues={AVAILABILITY: 200, BACKUPS: UNITS})
    ready = BacklogRecord.objects.ready().order_by("pk")
    of_full, of_plain = ready.filter(origin=full), ready.filter(origin=plain)
    running = [*of_full[:FULL_AT], *of_plain[: BUSY - FULL_AT]]
    answered = list(of_full[FULL_AT : FULL_AT + ANSWERED])
    for record in (*running, *answered):
        record.queue, record.exclusive_key = BACKUPS, f"source:{record.pk}"
    for record in running:
        record.status, record.attempt, record.leased_by, record.lease_token = Status.RUNNING, 2, worker, uuid4()
        record.started_at = record.run_after
        record.lease_expires_at = record.run_after + LONG
    for record in (*running, *answered):
        record.save()


def time_decisions(times: int) -> list[float]:
    """The seconds of each decision, after WARM_UP others. Between two decisions the asked source is found silent.

    Raises: RuntimeError when the units are short of nothing, or a claim comes back empty.
    """
    prepare_in_this_thread()
    worker = Worker.objects.get(name="busy")
    taken = []
    for _ in range(WARM_UP + times):
        Worker.objects.update(heartbeat_at=Now())
        began = time.perf_counter()
        limit = to_ask(shortage(BACKUPS, AVAILABILITY), asked_lately=0)
        claimed = claiming.claim(AVAILABILITY, worker_id=worker.pk, limit=min(1, limit))
        taken.append(time.perf_counter() - began)
        if not claimed:
            raise RuntimeError(f"nothing was claimed, although {limit} sources were to be asked")
        settling.settle([(record, Unavailable("it is silent", 86_400)) for record in claimed])
    return taken[WARM_UP:]
