"""Hosts that are slow, gone or out of their mind."""

import asyncio

import pytest
from aiohttp import web

from jobs.outcomes import Succeeded
from tests.delivery.events import deliver, failure_at, fault_at, make_event
from tests.delivery.receiver import receiving, speaking

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_loopback_allowed")]


class TestAHostThatMisbehaves:
    def test_never_answers(self):
        async def wait(request: web.Request) -> web.Response:
            await asyncio.sleep(60)
            return web.Response()

        outcome = failure_at(wait, timeout=0.3)
        assert "did not answer within 0.3 s" in outcome.error
        assert outcome.fault_of is not None
        assert "status" not in outcome.facts

    def test_answers_too_slowly(self):
        async def drip(reader, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.05)

        assert "did not answer within 0.3 s" in fault_at(drip, timeout=0.3).error

    def test_closes_at_once(self):
        async def close(reader, writer):
            pass

        assert "hung up without an answer" in fault_at(close).error

    def test_resets_the_connection(self):
        async def reset(reader, writer):
            writer.transport.abort()

        assert fault_at(reset).error

    def test_breaks_off_in_its_answer(self):
        async def break_off(reader, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
            await writer.drain()

        assert "broke off in the middle of its answer" in fault_at(break_off).error

    @pytest.mark.parametrize(
        "garbage",
        [
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\nno chunk\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
            b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"y" * 20_000 + b"\r\n\r\n",
        ],
    )
    def test_answers_garbage(self, garbage):
        async def speak_garbage(reader, writer):
            writer.write(garbage)
            await writer.drain()
            await asyncio.sleep(0.1)

        outcome = fault_at(speak_garbage)
        assert outcome.error.startswith("http://127.0.0.1:")
        assert len(outcome.error) < 200

    def test_answers_at_length_and_is_not_read_to_the_end(self):
        async def flood(reader, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
            with_it = b"x" * 65_536
            for _ in range(100):
                writer.write(with_it)
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
    @staticmethod
    def answer_once(answered: list[int]):
        async def speak(reader, writer):
            """Answers the first request of each connection, and hangs up at the second."""
            await reader.readexactly(1)
            answered.append(1)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")

        return speak

    def test_and_closed_just_now_costs_the_event_nothing(self):
        answered: list[int] = []
        with speaking(self.answer_once(answered)) as receiver:
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
        assert "hung up without an answer" in second.error
