"""Hosts that are slow, gone or out of their mind."""

import asyncio

import pytest
from aiohttp import web

from jobs.outcomes import BreakerTarget, Failed, Succeeded
from tests.delivery.events import deliver, fault_at, make_endpoint, make_event
from tests.delivery.receiver import Receiver, drip, receiving, speaking

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_loopback_allowed")]


async def close(reader, writer):
    pass


async def reset(reader, writer):
    writer.transport.abort()


def answer_and_close(answer):
    async def speak(reader, writer):
        writer.write(answer)
        await writer.drain()

    return speak


def too_slow_at(receiver: Receiver) -> Failed:
    """The result of a delivery to it that waits for a moment: on a busy machine it may end before it was accepted."""
    [outcome] = deliver(make_event(make_endpoint(receiver.url, timeout=0.3)))
    assert isinstance(outcome, Failed)
    assert outcome.error == f"{receiver.origin} did not answer within 0.3 s"
    assert outcome.fault_of == BreakerTarget(f"host:{receiver.origin}", receiver.origin)
    return outcome


class TestAHostThatMisbehaves:
    def test_never_answers_or_drips(self):
        async def wait(request: web.Request) -> web.Response:
            await asyncio.sleep(60)
            return web.Response()

        with receiving(wait) as receiver, speaking(drip) as dripping:
            outcome = too_slow_at(receiver)
            too_slow_at(dripping)
        assert len(receiver.requests) < 2
        assert "status" not in outcome.facts
        assert dripping.connections < 2

    @pytest.mark.parametrize(
        ("speak", "error"),
        [
            (close, "closed the connection without an answer"),
            (reset, ""),
            (
                answer_and_close(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"),
                "in the middle of its answer",
            ),
            (answer_and_close(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\nno chunk\r\n"), ""),
            (answer_and_close(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"), ""),
            (answer_and_close(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), ""),
            (answer_and_close(b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"y" * 20_000 + b"\r\n\r\n"), ""),
        ],
    )
    def test_breaks_off_or_answers_garbage(self, speak, error):
        outcome = fault_at(speak)
        assert outcome.error.startswith("http://127.0.0.1:")
        assert error in outcome.error
        assert len(outcome.error) < 200

    def test_answers_at_length_and_is_not_read_to_the_end(self):
        async def flood(reader, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
            for _ in range(100):
                writer.write(b"x" * 65_536)
                await writer.drain()

        with speaking(flood) as receiver:
            first, second = deliver(make_event(url=receiver.url), make_event(url=receiver.url))
            assert receiver.connections == 2
        assert isinstance(first, Succeeded)
        assert isinstance(second, Succeeded)
        assert first.facts["bytes"] == 65_536

    def test_is_not_there(self):
        with receiving() as receiver:
            url = receiver.url
        [outcome] = deliver(make_event(url=url))
        assert "could not be reached: Connection refused" in outcome.error
        assert outcome.fault_of.title == receiver.origin


class TestAConnectionThatWasKept:
    def test_and_closed_just_now_costs_the_event_nothing(self):
        answered: list[int] = []

        async def answer_once(reader, writer):
            """Answers the first request of each connection, and hangs up at the second."""
            await reader.readexactly(1)
            answered.append(1)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")

        with speaking(answer_once) as receiver:
            outcomes = deliver(*(make_event(url=receiver.url) for _ in range(4)))
            assert receiver.connections == 4
        assert all(isinstance(outcome, Succeeded) for outcome in outcomes)
        assert len(answered) == 4

    def test_is_tried_anew_once_only(self):
        answers = [200]

        async def speak(reader, writer):
            if answers:
                writer.write(b"HTTP/1.1 %d OK\r\nContent-Length: 0\r\n\r\n" % answers.pop())
                await reader.readuntil(b"\r\n\r\n")

        with speaking(speak) as receiver:
            first, second = deliver(make_event(url=receiver.url), make_event(url=receiver.url))
            assert receiver.connections == 2
        assert isinstance(first, Succeeded)
        assert "closed the connection without an answer" in second.error
