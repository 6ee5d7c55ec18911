"""Callbacks to one host: this project's worker, and the bare HTTP client that it uses.

`delivery-ours` is `jobs.worker.process.WorkerProcess` as `manage.py worker` runs it, with the default concurrency of
the queue `callbacks`, 200: every event is claimed, signed, sent and settled, and its answer is kept. `delivery-bare`
has the bodies in memory, and sends them unsigned from 200 tasks of one session: each takes the next one when it has an
answer.
"""

import asyncio
import os
import signal
from typing import Any

from jobs.states import Status
from proving.bench.contestant import MEASURED, Connection, Site
from proving.bench.contestants.ours import Ours, set_up

QUEUE, PLACES = "callbacks", 200
DONE = "sent"
"""The name of a row by which the bare client reports that it has every answer."""
ALLOWED = {"BACKUPSCHED_CALLBACKS_ALLOWED": "127.0.0.1"}


def set_up_for_loopback(url: str) -> None:
    os.environ.update(ALLOWED)
    set_up(url)


class Delivery(Ours):
    family = "delivery"
    distribution = "aiohttp"

    def __init__(self, name: str = "delivery-ours") -> None:
        super().__init__(name, is_async=True)

    def make_callbacks(self, url: str, count: int, receiver: str) -> None:
        """Enqueue `count` ready events for an endpoint at `receiver` with a signing secret."""
        set_up_for_loopback(url)
        from delivery import signing
        from delivery.models import Endpoint
        from jobs.backlog import enqueue

        endpoint = Endpoint.objects.create(name="receiver", url=receiver)
        signing.rotate(endpoint)
        events = ((f"1-20260302T090000Z-{number}", _payload(number, count, endpoint)) for number in range(1, count + 1))
        enqueue("http_callback", events, queue=QUEUE, priority=MEASURED)

    def work(self, site: Site, *, stamp: bool) -> None:
        set_up_for_loopback(site.url)
        from delivery.handlers import deliver
        from jobs.conf import QueueRule
        from jobs.handlers import Run, registry
        from jobs.outcomes import Outcome
        from jobs.worker.process import WorkerProcess

        class GatedWorker(WorkerProcess):
            def start(self) -> None:
                super().start()
                site.gate.wait_at()

        tick = site.tally.tick

        async def count(run: Run) -> Outcome:
            outcome = await deliver(run)
            tick()
            return outcome

        registry.handler("http_callback", queue=QUEUE)(count)
        worker = GatedWorker([QueueRule(QUEUE, PLACES)], grace=5)
        worker.install_signal_handlers()
        worker.run()

    def is_done(self, connection: Connection, count: int) -> bool:
        row = connection.execute(
            f"""
            SELECT EXISTS (SELECT FROM jobs_backlogrecord
                            WHERE status = {Status.READY} AND queue = '{QUEUE}' AND lane = 0),
                   EXISTS (SELECT FROM jobs_backlogrecord WHERE status = {Status.RUNNING})
            """
        ).fetchone()
        return row == (False, False)


class BareDelivery(Delivery):
    def __init__(self) -> None:
        super().__init__("delivery-bare")

    def work(self, site: Site, *, stamp: bool) -> None:
        set_up(site.url)
        from django.db import connection

        from delivery.events import body_of
        from delivery.handlers import prepare
        from delivery.models import Endpoint
        from jobs.models import BacklogRecord, Worker

        receiver = Endpoint.objects.get().url
        payloads = BacklogRecord.objects.order_by("pk").values_list("payload", flat=True)
        messages = [(payload["event_id"], body_of(payload, "").encode()) for payload in payloads]
        prepare()  # collects garbage as seldom as our worker does
        site.gate.wait_at()
        asyncio.run(send_all(receiver, messages, site))
        Worker.objects.create(name=DONE, hostname="bench", pid=os.getpid())
        connection.close()
        signal.pause()

    def is_done(self, connection: Connection, count: int) -> bool:
        row = connection.execute("SELECT EXISTS (SELECT FROM jobs_worker WHERE name = %s)", [DONE]).fetchone()
        return row == (True,)

    def finished(self, connection: Connection) -> tuple[int, int]:
        """The number of records as jobs and as runs: the receiver has counted, and the database has no results."""
        row: Any = connection.execute("SELECT count(*) FROM jobs_backlogrecord").fetchone()
        return row[0], row[0]


async def send_all(receiver: str, messages: list[tuple[str, bytes]], site: Site) -> None:
    """Send them all, PLACES at once."""
    import aiohttp

    to_come = iter(messages)

    async def send(session: aiohttp.ClientSession) -> None:
        for event_id, body in to_come:
            headers = {"Idempotency-Key": event_id, "Content-Type": "application/json"}
            async with session.post(receiver, data=body, headers=headers) as response:
                await response.read()
                response.raise_for_status()
            site.tally.tick()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(send(session) for _ in range(PLACES)))


def _payload(number: int, count: int, endpoint: Any) -> dict[str, Any]:
    return {
        "title": f"bench {number}/{count}",
        "schedule": "bench",
        "trigger_at": "2026-03-02T09:00:00Z",
        "event_id": f"1-20260302T090000Z-{number}",
        "number": number,
        "count": count,
        "endpoint": endpoint.pk,
        "url": endpoint.url,
        "body": {"shard": number, "of": count, "tenant": "office"},
    }
