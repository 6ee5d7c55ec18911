"""Messages of queues as a worker sends them: a process, and a server that dies and comes back."""

import json
import signal
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from delivery.models import Endpoint
from jobs import backlog, claiming, settling, tick
from jobs.handlers import Run
from jobs.models import Attempt, BacklogRecord, Breaker
from jobs.outcomes import Failed, Guarded, Held, Outcome, Succeeded
from jobs.states import Status
from tests.delivery.queue_servers import (
    CREDENTIALS,
    QueueServer,
    ScriptedServer,
    deliver,
    endpoint_at,
    payload_for,
    queue_server,
)
from tests.factories import NOON, make_record, make_worker
from tests.sources.worker_process import worker_process
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("_worker_of_queues")]

EVENTS = 60
MINUTE = timedelta(minutes=1)


@pytest.mark.django_db(transaction=True)
class TestAWorker:
    def test_delivers_every_event_once_and_one_to_try_it(self, server: QueueServer, tmp_path: Path) -> None:
        url = server.make_queue("worked")
        endpoint = endpoint_at(url)
        payloads = [payload_for(endpoint, number) for number in range(1, EVENTS + 1)]
        with worker_process(
            "callbacks:20", tmp_path, BACKUPSCHED_CALLBACKS_ALLOWED="127.0.0.0/8", **CREDENTIALS
        ) as worker:
            backlog.enqueue("sqs_message", [(payload["event_id"], payload) for payload in payloads])
            delivered = BacklogRecord.objects.filter(status=Status.SUCCEEDED)
            eventually(lambda: worker.poll() is not None or delivered.count() == EVENTS)
            numbers = sorted(json.loads(message["Body"])["number"] for message in server.received(url))
            assert numbers == list(range(1, EVENTS + 1))

            output = StringIO()
            call_command("endpoints", "test", endpoint.name, stdout=output)
            assert output.getvalue().startswith("delivered: it answered 200 after ")
            [test_event] = server.received(url)
            assert json.loads(test_event["Body"])["payload"] == {"test": True}

            worker.send_signal(signal.SIGTERM)
            assert worker.wait(PATIENCE) == 0


def emit(endpoint: Endpoint, *numbers: int) -> None:
    for number in numbers:
        payload = payload_for(endpoint, number)
        make_record(kind="sqs_message", queue="callbacks", subject=payload["event_id"], payload=payload)


def work(now: datetime) -> list[Outcome]:
    """Claim all that is ready, deliver it and settle it."""
    claimed = claiming.claim("callbacks", worker_id=make_worker().pk, limit=100, now=now)
    outcomes = deliver(*map(Run, claimed))
    settling.settle(list(zip(claimed, outcomes, strict=True)), now=now)
    return outcomes


@pytest.mark.django_db
class TestABreaker:
    def test_of_a_server_that_is_killed_holds_what_follows_and_lets_it_go_when_it_is_back(self, tmp_path: Path) -> None:
        with queue_server(tmp_path) as server:
            endpoint = endpoint_at(server.make_queue("events"))
            emit(endpoint, 1)
            assert [type(outcome) for outcome in work(NOON)] == [Succeeded]
            server.kill()
            emit(endpoint, *range(2, 8))
            outcomes = work(NOON + MINUTE)
            assert {outcome.fault_of for outcome in outcomes if isinstance(outcome, Failed)} == {
                Guarded(f"host:{server.url}", server.url)
            }
            breaker = Breaker.objects.get()
            assert breaker.is_open
            assert server.url in breaker.last_error
            emit(endpoint, 8)
            [held] = work(NOON + MINUTE)
            assert isinstance(held, Held), "it is refused without being tried"

            server.start()
            server.make_queue("events")
            tick.tick(NOON + 2 * MINUTE, rescue=False)
            outcomes = work(NOON + 2 * MINUTE)
            [trial] = [outcome for outcome in outcomes if isinstance(outcome, Succeeded)]
            assert trial.proves == Guarded(f"host:{server.url}", server.url)
            assert {type(outcome) for outcome in outcomes} == {Succeeded, Held}, "those it had failed before it opened"
            assert not Breaker.objects.get().is_open
            tick.tick(NOON + 60 * MINUTE, rescue=False)
            work(NOON + 60 * MINUTE)
            assert set(BacklogRecord.objects.values_list("status", flat=True)) == {Status.SUCCEEDED}
            assert len(server.received(endpoint.url)) == 7

    def test_counts_a_server_that_never_answers_until_it_does_and_nothing_that_it_refuses(
        self, scripted: ScriptedServer
    ) -> None:
        url = f"{scripted.url}/1/events"
        patient, hasty = endpoint_at(url), endpoint_at(url, name="hasty", timeout=0.2)
        scripted.refuses("AccessDenied")
        emit(patient, 1)
        work(NOON)
        assert not Breaker.objects.exists()
        scripted.silent = True
        emit(hasty, 2)
        [outcome] = work(NOON)
        assert isinstance(outcome, Failed)
        assert "did not answer within 0.2 s" in outcome.error
        assert Attempt.objects.latest("pk").facts["seconds"] > 0.19
        assert Breaker.objects.get().failures == 1
        scripted.silent, scripted.status, scripted.body = False, 200, json.dumps({"MessageId": "1"})
        emit(patient, 3)
        work(NOON)
        assert Breaker.objects.get().failures == 0
