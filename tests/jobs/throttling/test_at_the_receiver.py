"""A throttle as its receiver sees it: three real workers deliver, and one of them is killed in the middle."""

import signal
import subprocess
from collections.abc import Iterator

import pytest

from delivery.models import Endpoint
from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord, Throttle, Worker
from jobs.states import AttemptOutcome, Status
from operations import throttles
from schedules import verbs
from schedules.models import Schedule
from tests.factories import make_retry_policy
from tests.jobs.throttling.counting_receiver import CountingReceiver, counting_receiver, start_delivering
from tests.jobs.worker_processes import Programs
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ANSWER_SECONDS = 0.04


@pytest.fixture
def receiver() -> Iterator[CountingReceiver]:
    with counting_receiver(ANSWER_SECONDS) as receiver:
        yield receiver


def make_batches(receiver: CountingReceiver, throttle: Throttle, *counts: int) -> None:
    """Schedules that share `throttle` and an endpoint at the receiver, each triggered once."""
    endpoint = Endpoint.objects.create(name="receiver", url=receiver.url, timeout=3600)  # it is held
    at_once = make_retry_policy(parameters={"base": 0.1})
    for number, count in enumerate(counts):
        schedule = Schedule.objects.create(
            name=f"batch {number}", cron="0 0 1 1 *", kind="http_callback", event_count=count, endpoint=endpoint,
            throttle=throttle, retry_policy=at_once,
        )  # fmt: skip
        verbs.trigger_now(schedule, "the test")
    # a worker that met the batch first may still be at it
    eventually(lambda: BacklogRecord.objects.count() == sum(counts))


def all_delivered() -> bool:
    return not BacklogRecord.objects.exclude(status=Status.SUCCEEDED).exists()


def kill_one_at_work(processes: list[subprocess.Popen[bytes]]) -> None:
    """Kill one of the workers while it holds records: it stands still while that is looked at. Its leases end then."""

    def caught() -> bool:
        for process in processes:
            process.send_signal(signal.SIGSTOP)
            held = BacklogRecord.objects.running().filter(leased_by__pid=process.pid)
            if held.count() > 1:
                process.kill()
                process.wait()
                held.update(lease_expires_at=database_clock())
                return True
            process.send_signal(signal.SIGCONT)
        return False

    eventually(caught)


@pytest.mark.promise
def test_three_workers_one_of_them_killed_never_have_more_in_flight_than_the_throttle_lets_through(
    programs: Programs, receiver: CountingReceiver
) -> None:
    throttle = Throttle.objects.create(name="shared", max_in_flight=5)
    processes = [start_delivering(programs) for _ in range(3)]
    eventually(lambda: Worker.objects.count() == 3)
    make_batches(receiver, throttle, 60, 60)
    eventually(lambda: receiver.answered.total() > 10)
    receiver.held = True  # a slow machine comes to the cap, too, and of three workers one has two at work
    eventually(lambda: receiver.in_flight == 5)
    kill_one_at_work(processes)
    eventually(lambda: receiver.broken_off > 1)
    eventually(lambda: receiver.in_flight == 5)
    receiver.held = False
    eventually(all_delivered)
    assert receiver.peak == 5
    assert len(receiver.answered) == 120
    killed = Attempt.objects.filter(outcome=AttemptOutcome.RESCUED).count()
    assert killed >= 1
    assert receiver.broken_off <= killed
    assert receiver.answered.total() <= 120 + killed
    assert len(set(Attempt.objects.values_list("worker", flat=True))) > 1  # who gets how much room is chance

    # the edited cap, with the two that are left
    Throttle.objects.update(max_in_flight=0)
    BacklogRecord.objects.filter(pk__in=BacklogRecord.objects.order_by("pk")[:20]).update(
        status=Status.READY, finished_at=None
    )
    [live] = throttles.live([throttle.pk])
    assert (live.in_flight, live.ready, receiver.in_flight) == (0, 20, 0)
    receiver.peak, receiver.held = 0, True
    Throttle.objects.update(max_in_flight=2)
    eventually(lambda: receiver.in_flight == 2)
    receiver.held = False
    eventually(all_delivered)
    assert receiver.peak == 2
