"""A worker as a process of its own that delivers to a real server of queues, and a person who tries an endpoint."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from delivery.sqs import message
from jobs import backlog
from jobs.handlers import Run
from jobs.models import BacklogRecord, Breaker
from jobs.outcomes import Failed, Held, Outcome
from jobs.states import Status
from tests.delivery.queue_servers import (
    CREDENTIALS,
    QueueServer,
    describe_server,
    endpoint_at,
    payload_for,
    queue_server,
    run_for,
)
from tests.factories import NOON
from tests.jobs.worker_processes import database_url
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

EVENTS = 60
AT_ONCE = 20
THREADS = 8


@pytest.fixture
def server(tmp_path: Path) -> Iterator[QueueServer]:
    with queue_server(tmp_path) as running:
        yield running


@pytest.fixture
def worker(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    environment = {
        **os.environ,
        **CREDENTIALS,
        "DJANGO_SETTINGS_MODULE": "backupsched.settings",
        "DATABASE_URL": database_url(),
        "BACKUPSCHED_CALLBACKS_ALLOWED": "127.0.0.0/8",
    }
    command = [sys.executable, "manage.py", "worker", "--queues", f"callbacks:{AT_ONCE}", "--grace", "5"]
    with (tmp_path / "worker.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stderr=log, cwd=settings.BASE_DIR)
    yield process
    if process.poll() is None:
        process.kill()
    process.wait(PATIENCE)


def sessions() -> int:
    """How many sessions this test's database has for other threads and processes."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
        return int(cursor.fetchone()[0])


class TestAWorker:
    def test_delivers_every_event_once_and_one_to_try_it(
        self, server: QueueServer, worker: "subprocess.Popen[bytes]"
    ) -> None:
        url = server.make_queue("events")
        endpoint = endpoint_at(url)
        payloads = [payload_for(endpoint, number) for number in range(1, EVENTS + 1)]
        backlog.enqueue("sqs_message", [(payload["event_id"], payload) for payload in payloads])
        delivered = BacklogRecord.objects.filter(status=Status.SUCCEEDED)
        eventually(lambda: worker.poll() is not None or delivered.count() == EVENTS)
        numbers = sorted(json.loads(message["Body"])["number"] for message in server.received(url))
        assert numbers == list(range(1, EVENTS + 1))

        told = StringIO()
        call_command("endpoints", "test", endpoint.name, stdout=told)
        assert told.getvalue().startswith("delivered: it answered 200 after ")
        [message] = server.received(url)
        assert json.loads(message["Body"])["payload"] == {"test": True}

        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0


class TestItsThreads:
    @pytest.mark.parametrize(("is_open", "expected"), [(True, Held), (False, Failed)])
    def test_keep_no_session_of_the_database_each(
        self, is_open: bool, expected: type[Outcome], monkeypatch: pytest.MonkeyPatch, settings: Any
    ) -> None:
        settings.CALLBACKS_ALLOWED = ["127.0.0.0/8"]
        monkeypatch.setattr(message, "KNOWN_FOR", -1.0)
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        all_done, before = Barrier(THREADS + 1, timeout=PATIENCE), sessions()

        def deliver(run: Run) -> Outcome:
            outcome = message.deliver(run)
            all_done.wait()  # all have delivered, and none has ended
            all_done.wait()
            connection.close()
            return outcome

        with describe_server() as told, ThreadPoolExecutor(THREADS) as pool:
            told.refuses("InternalError", status=500)
            endpoint = endpoint_at(f"{told.url}/1/events")
            if is_open:
                Breaker.objects.create(
                    key=f"host:{told.url}", title=told.url, opened_at=NOON, probe_at=NOON, failures=3
                )
            delivering = [pool.submit(deliver, run_for(endpoint, number)) for number in range(THREADS)]
            all_done.wait()
            during = sessions()
            all_done.wait()
            assert {type(each.result()) for each in delivering} == {expected}
        message.forget_all()
        assert during - before <= 1
