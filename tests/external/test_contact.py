"""Contact with a host: names, addresses, the threads in which the system is asked, and the limit of sockets."""

import asyncio
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest
from django.conf import settings

from external.network import contact
from external.network.bounded_threads import BoundedThreads
from external.network.contact import addresses_of, first_of
from sources.availability.probes import Answer, ask, ask_now
from tests.sources.strangers import host_at, talker
from tests.waiting import PATIENCE, eventually


class TestNames:
    @pytest.mark.parametrize(
        "address", ["no-such-host.invalid", "two..dots", "x" * 64, "-oProxyCommand=true", "", "a\0b"]
    )
    def test_a_host_without_an_address_is_absent(self, address: str) -> None:
        answer = ask_now(host_at(address, 22), PATIENCE)
        assert not answer.present
        assert answer.text.startswith(f"{address}:22 did not answer")

    def test_names_without_an_answer_do_not_hold_up_those_that_are_known(self, monkeypatch: pytest.MonkeyPatch) -> None:
        answering = threading.Event()

        def look_up(host: str, *arguments: Any, **named: Any) -> Any:
            if host != "known.example":
                answering.wait(2 * PATIENCE)  # as a resolver whose server is silent
                raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
            return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (known, 0))]

        async def ask_all() -> tuple[Answer, list[Answer]]:
            unknown = [asyncio.ensure_future(ask(host_at(f"laptop-{n}.example", 22), 1.5)) for n in range(200)]
            await asyncio.sleep(0)
            answer = await ask(host_at("known.example", port), PATIENCE)
            return answer, await asyncio.gather(*unknown)

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        with talker(b"SSH-2.0-x\r\n") as (known, port):
            answer, others = asyncio.run(ask_all())
        answering.set()
        assert answer.present
        assert {other.text.partition(":22 ")[2] for other in others} == {"did not answer within 1.5 s"}

    def test_the_same_name_is_looked_up_once_at_a_time(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        looked_up, gate = [], threading.Event()

        def look_up(host: str, *arguments: Any, **named: Any) -> Any:
            looked_up.append(host)
            gate.wait(PATIENCE)
            return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("192.0.2.1", 0))]

        async def look_up_often() -> list[list[str]]:
            asked = [asyncio.ensure_future(addresses_of("one.example")) for _ in range(20)]
            await asyncio.sleep(0)
            asked[0].cancel()  # one gives up, which is nothing to the others
            gate.set()
            return await asyncio.gather(*asked[1:])

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        assert asyncio.run(look_up_often()) == [["192.0.2.1"]] * 19
        assert looked_up == ["one.example"]
        assert caplog.text == ""

    def test_what_has_just_checked_in_waits_for_no_name_of_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        gate = threading.Event()

        def look_up(host: str, *arguments: Any, **named: Any) -> Any:
            if host == "gone.example":
                gate.wait(PATIENCE)
            return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("192.0.2.1", 0))]

        async def arrive() -> list[str]:
            asyncio.ensure_future(addresses_of("gone.example"))  # noqa: RUF006 - it hangs
            await asyncio.sleep(0)
            contact.is_arrival.set(True)
            try:
                return await asyncio.wait_for(addresses_of("here.example"), PATIENCE / 2)
            finally:
                gate.set()

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        monkeypatch.setattr(contact, "lookups", BoundedThreads("look-up", 1))
        assert asyncio.run(arrive()) == ["192.0.2.1"]


class TestTheFirstOf:
    def test_the_next_address_is_asked_at_once_when_one_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(contact, "NEXT_ADDRESS_AFTER", 2 * PATIENCE)

        async def ask_address(address: str) -> str:
            if address != "d":
                raise OSError(address)
            return address

        found = asyncio.wait_for(first_of(["a", "b", "c", "d"], ask_address), PATIENCE)
        assert asyncio.run(found) == "d"

    def test_those_that_are_slow_are_given_up_once_another_answers(self) -> None:
        given_up = []

        async def ask_address(address: str) -> str:
            try:
                await asyncio.sleep(0 if address == "quick" else 60)
            except asyncio.CancelledError:
                given_up.append(address)
                raise
            return address

        assert asyncio.run(first_of(["slow", "quick"], ask_address)) == "quick"
        assert given_up == ["slow"]

    def test_the_first_address_says_why_there_is_nothing_at_any(self) -> None:
        async def refuse(address: str) -> str:
            raise OSError(f"no host at {address}")

        with pytest.raises(OSError, match="no host at a"):
            asyncio.run(first_of(["a", "b"], refuse))


class TestBoundedThreads:
    def test_never_more_than_the_limit_run_and_all_calls_are_made(self) -> None:
        threads, running, most, lock = BoundedThreads("test", 3), [0], [0], threading.Lock()
        three_are_there = threading.Barrier(3, timeout=PATIENCE)

        def work(number: int) -> int:
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            three_are_there.wait()
            with lock:
                running[0] -= 1
            return number

        async def call_all() -> list[int]:
            return await asyncio.gather(*(threads.call(n, lambda n=n: work(n)) for n in range(30)))

        assert asyncio.run(call_all()) == list(range(30))
        assert most == [3]

    def test_idle_threads_end(self) -> None:
        threads = BoundedThreads("soon-idle", 5)
        assert threads.call_now(1, lambda: 7, PATIENCE) == 7
        eventually(lambda: "soon-idle" not in [thread.name for thread in threading.enumerate()])
        assert threads.call_now(1, lambda: 8, PATIENCE) == 8

    def test_a_hung_call_does_not_keep_the_process_from_ending(self) -> None:
        script = (
            "import asyncio, threading\n"
            "from external.network.bounded_threads import BoundedThreads\n"
            "hang = lambda: threading.Event().wait()\n"
            "try: asyncio.run(asyncio.wait_for(BoundedThreads('hung', 1).call('k', hang), 0.05))\n"
            "except TimeoutError: pass\n"
        )
        ended = subprocess.run([sys.executable, "-c", script], cwd=settings.BASE_DIR, timeout=PATIENCE)
        assert ended.returncode == 0


SCRIPT = """
import resource
from external.sockets import sockets
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
sockets.raise_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], sockets.limit)
"""


@pytest.mark.parametrize(("soft", "hard", "raised"), [(256, 4096, (4096, 3584)), (256, 256, (256, 128))])
def test_the_soft_limit_is_raised_to_the_hard_one(soft: int, hard: int, raised: tuple[int, int]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(soft=soft, hard=hard)], capture_output=True, text=True, check=True
    )
    assert tuple(map(int, done.stdout.split())) == raised
