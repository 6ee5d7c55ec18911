"""Servers of queues that lie, and addresses that a message is not sent to."""

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiohttp import web

from delivery.models import Endpoint
from jobs.outcomes import BreakerTarget
from tests.delivery.queue_servers import (
    TAKEN,
    ScriptedServer,
    delivered,
    endpoint_at,
    failed,
    run_for,
    scripted_endpoint,
    scripted_server,
)
from tests.delivery.receiver import Speak, drip, receiving, speaking

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.usefixtures("_worker_of_queues")]


@contextmanager
def server_that(does: Speak) -> Iterator[tuple[str, BreakerTarget]]:
    """One that does so with a message. Gives the URL of a queue there, and what its breaker is of."""
    with speaking(does) as receiver:
        yield f"{receiver.origin}/1/events", BreakerTarget(f"host:{receiver.origin}", receiver.origin)


class TestAServerThatLies:
    def test_with_an_answer_that_never_ends_is_given_up_in_time(self) -> None:
        with server_that(drip) as (url, guarded):
            outcome = failed(run_for(endpoint_at(url, timeout=0.5)))
        assert outcome.error.endswith("/…/events did not answer within 0.5 s")
        assert outcome.fault_of == guarded

    def test_with_an_endless_answer_is_not_read_to_its_end(self) -> None:
        sent = []

        async def flood(reader: Any, writer: Any) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
            for _ in range(1000):
                writer.write(b" " * 65_536)
                await writer.drain()
                sent.append(65_536)

        with server_that(flood) as (url, guarded):
            outcome = failed(run_for(endpoint_at(url)))
        assert "is it a server of queues?" in outcome.error
        assert outcome.fault_of == guarded
        assert sum(sent) < 30_000_000

    def test_and_repeats_what_proves_who_we_are_is_not_quoted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_SESSION_TOKEN", "s3cret/t0ken+of+the+role")

        async def repeat(request: web.Request) -> web.Response:
            told = {"__type": "x#SomethingNew", "message": f"you are {request.headers['X-Amz-Security-Token']}"}
            return web.json_response(told, status=400)

        with receiving(repeat) as receiver:
            outcome = failed(run_for(endpoint_at(f"{receiver.origin}/1/events")))
        assert "SomethingNew: you are ***" in outcome.error
        assert "s3cret" not in repr(outcome)

    def test_in_the_id_of_a_message_or_a_code_is_quoted_as_people_can_read_it(self, scripted: ScriptedServer) -> None:
        endpoint = scripted_endpoint(scripted)
        scripted.body = json.dumps({"MessageId": "a\0b\ud800" + "c" * 1000})
        facts = delivered(run_for(endpoint)).facts or {}
        assert str(facts["message_id"]).startswith("a b c")
        assert len(str(facts["message_id"])) <= 200
        scripted.refuses("X" * 60_000, "\0")
        assert len(failed(run_for(endpoint)).error) < 500
        scripted.body = "[" * 60_000
        assert "400 Bad Request: [[[" in failed(run_for(endpoint)).error


class TestAddresses:
    def test_a_private_one_is_refused_also_by_a_name_unless_that_is_allowed(
        self, scripted: ScriptedServer, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings.CALLBACKS_ALLOWED = []
        assert "is not public; exceptions are listed in" in failed(run_for(scripted_endpoint(scripted))).error
        run = run_for(_by_name(scripted, monkeypatch))
        outcome = failed(run)
        assert "queues.example.com has the address 127." in outcome.error
        assert (scripted.connections, outcome.fault_of) == (0, None)
        settings.CALLBACKS_ALLOWED = ["queues.example.com"]
        scripted.body = TAKEN
        delivered(run)
        assert scripted.asked == ["/"]

    def test_no_redirect_is_followed_and_no_proxy_used(
        self, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A proxy would look up the name in place of us."""
        with scripted_server() as other:
            monkeypatch.setenv("http_proxy", other.url)
            scripted.status, scripted.body, scripted.headers = 307, "", {"Location": f"{other.url}/"}
            failed(run_for(scripted_endpoint(scripted)))
            assert (len(scripted.asked), other.asked) == (1, [])


def _by_name(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """An endpoint by a name that leads to `scripted`."""
    look_up = socket.getaddrinfo
    [address, port] = re.findall(r"http://([\d.]+):(\d+)", scripted.url)[0]

    def answer(host: str, *rest: Any, **more: Any) -> Any:
        return look_up(address if host == "queues.example.com" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return endpoint_at(f"http://queues.example.com:{port}/1/events")
