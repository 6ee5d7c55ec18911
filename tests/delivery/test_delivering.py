"""A real worker, as `manage.py worker` runs it, and real servers that misbehave in every way at once."""

import asyncio
import json
import signal
import socket
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from delivery import signing
from delivery.models import Endpoint
from jobs.backlog.cancelling import cancel
from jobs.models import Attempt, BacklogRecord, Breaker
from jobs.states import Status, WaitingFor
from sealing.encryption import seal
from tests.delivery.certificates import make_certificate, served_with
from tests.delivery.events import make_endpoint
from tests.delivery.receiver import Receiver, accept, receiving, speaking
from tests.factories import make_record
from tests.sources.worker_process import worker_process
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

AUTHORIZATION = "Bearer s3cret-t0ken"


def put(endpoint: Endpoint, count: int = 1) -> list[BacklogRecord]:
    """This number of ready events for an endpoint."""
    return [
        make_record(
            kind="http_callback",
            queue="callbacks",
            subject=f"{endpoint.pk}-{number}",
            payload={"endpoint": endpoint.pk, "event_id": f"{endpoint.pk}-{number}", "number": number, "body": number},
        )
        for number in range(1, count + 1)
    ]


def answering(status: int, **headers: str) -> Any:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, headers=headers, text=request.headers.get("Authorization", ""))

    return answer


async def wait(request: web.Request) -> web.Response:
    await asyncio.sleep(600)
    return web.Response()


class TestAWorker:
    @pytest.mark.promise
    def test_delivers_what_can_be_says_of_all_else_what_is_wrong_and_breaks_off_what_it_does_not_wait_for(
        self, tmp_path
    ):
        trusted, other = make_certificate(tmp_path, "127.0.0.1"), make_certificate(tmp_path, "127.0.0.9")

        async def slow(request: web.Request) -> web.Response:
            await asyncio.sleep(1.5)
            return web.Response()

        async def close(reader: Any, writer: Any) -> None:
            pass

        async def garbage(reader: Any, writer: Any) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n")

        async def flood(reader: Any, writer: Any) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 1_000_000)
            await writer.drain()

        with ExitStack() as stack:

            def at(server: Any, **fields: Any) -> Endpoint:
                receiver: Receiver = stack.enter_context(server)
                return make_endpoint(receiver.url, sealed_authorization=seal(AUTHORIZATION), **fields)

            gone = at(receiving())
            stack.pop_all().close()
            no_one = stack.enter_context(socket.socket())  # holds the port, which another receiver could get
            no_one.bind(("127.0.0.1", urlsplit(gone.url).port))
            private = {"Location": "http://127.0.0.2:9/"}
            failing = {
                put(endpoint)[0].pk: error
                for endpoint, error in (
                    (at(receiving(answering(500))), "answered 500 Internal Server Error: ***"),
                    (at(receiving(answering(410))), "answered 410 Gone: ***"),
                    (at(receiving(answering(429, **{"Retry-After": "7200"}))), "answered 429 Too Many Requests: ***"),
                    (at(receiving(answering(307, **private))), "redirects are not followed"),
                    (at(receiving(answering(307, **private)), follow_redirects=True), "127.0.0.2 is not public"),
                    (at(receiving(wait), timeout=1), "did not answer within 1 s"),
                    (at(receiving(tls=served_with(other))), "has a certificate that is not trusted"),
                    (at(speaking(close)), "closed the connection without an answer"),
                    (at(speaking(garbage)), "http://127.0.0.1:"),
                    (gone, "could not be reached: Connection refused"),
                )
            }
            hanging = stack.enter_context(receiving(wait))
            unwanted, *unanswered = put(make_endpoint(hanging.url, timeout=3600), 20)
            broken, good = stack.enter_context(receiving(answering(500))), stack.enter_context(receiving())
            held = [record.pk for record in put(make_endpoint(broken.url), 300)]
            endpoint = make_endpoint(good.url)
            signing.rotate(endpoint)
            delivered = [record.pk for record in put(endpoint, 100)]
            delivered += [put(at(receiving(slow)))[0].pk, put(at(speaking(flood)))[0].pk]
            delivered += [put(at(receiving(accept, tls=served_with(trusted))))[0].pk]
            environment = {"BACKUPSCHED_CALLBACKS_ALLOWED": "127.0.0.1", "SSL_CERT_FILE": str(trusted)}
            process = stack.enter_context(worker_process("callbacks:200", tmp_path, grace=1, **environment))
            eventually(lambda: hanging.in_flight == 20)
            cancel([unwanted.pk])
            eventually(lambda: hanging.in_flight == 19)
            waiting = BacklogRecord.objects.filter(waiting_for__in=[WaitingFor.BACKOFF, WaitingFor.BREAKER])
            eventually(lambda: waiting.count() == len(failing) + len(held))
            unfinished = len(failing) + len(held) + len(unanswered)
            eventually(lambda: BacklogRecord.objects.unfinished().count() == unfinished)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
            eventually(lambda: hanging.in_flight == 0)

        records = BacklogRecord.objects.in_bulk()
        assert {pk: records[pk].get_status_display() for pk in delivered} == dict.fromkeys(delivered, "succeeded")
        assert records[unwanted.pk].status == Status.CANCELLED
        assert {(records[each.pk].status, records[each.pk].failures) for each in unanswered} == {(Status.READY, 0)}
        for pk, error in failing.items():
            assert error in records[pk].last_error
            assert (records[pk].status, records[pk].waiting_for) == (Status.WAITING, WaitingFor.BACKOFF)
            assert records[pk].failures == 1
        [asked] = [each for each in records.values() if "answered 429" in each.last_error]
        assert (asked.run_after - asked.last_failure_at).total_seconds() == pytest.approx(7200, abs=2)
        assert sum(records[pk].failures for pk in held) < 3
        assert Breaker.objects.get(opened_at__isnull=False).title == broken.origin
        facts = Attempt.objects.get(record_id=delivered[0]).facts
        assert facts["status"] == 200
        assert len({json.loads(request.body)["event_id"] for request in good.requests}) == len(good.requests) == 100
        assert all("webhook-signature" in request.headers for request in good.requests)
        log = (tmp_path / "worker.log").read_text()
        everything = log + "".join(f"{each.last_error}{each.payload}" for each in records.values())
        assert "s3cret" not in everything
        assert "Unclosed" not in log
        assert "Traceback" not in log
