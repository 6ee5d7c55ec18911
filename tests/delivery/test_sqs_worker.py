"""Messages of queues as a worker sends them, which is a process."""

import json
import signal
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from jobs import backlog
from jobs.models import BacklogRecord
from jobs.states import Status
from tests.delivery.queue_servers import CREDENTIALS, QueueServer, endpoint_at, payload_for
from tests.sources.worker_process import worker_process
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("_worker_of_queues")]

EVENTS = 60


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
