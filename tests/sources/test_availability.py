"""Is it there? Real ports, sockets, servers and folders on this machine."""

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from sources import availability, contact
from sources.availability import Answer, ask, ask_now, contact_point
from sources.bounded_threads import BoundedThreads
from sources.contact import addresses_of, first_of
from sources.models import Source
from tests.sources.engines.peers import free_port, loopback_address
from tests.sources.hosts import Hosts, another_address, black_hole, mute_host
from tests.waiting import eventually

PATIENCE = 20.0
"""Seconds: no test waits so long unless something is broken."""


@contextmanager
def talker(*said: bytes, hang_up: bool = False, address: str = "") -> Iterator[tuple[str, int]]:
    """A host that says something to whoever comes, and waits (or hangs up). Yields address and port."""
    with socket.create_server((address or another_address(), 0)) as server:
        open_ones = []

        def talk() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                for text in said:
                    client.sendall(text)
                if hang_up:
                    client.close()
                else:
                    open_ones.append(client)

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        yield server.getsockname()
        server.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)
        for client in open_ones:
            client.close()


def host_at(address: str, port: int | None, kind: str = "sftp") -> Source:
    return Source(name="laptop", kind=kind, address=address, port=port)


class TestPorts:
    def test_an_ssh_host_that_says_so_is_present(self) -> None:
        with talker(b"SSH-2.0-OpenSSH_9.9\r\n") as (address, port):
            assert ask_now(host_at(address, port), PATIENCE) == Answer(True, f"{address}:{port} answered")

    @pytest.mark.timeout(20)
    def test_a_frozen_host_accepts_connections_and_is_absent_all_the_same(self) -> None:
        with mute_host() as (address, port):
            answer = ask_now(host_at(address, port), 0.2)
        assert answer == Answer(False, f"{address}:{port} did not answer within 0.2 s")

    @pytest.mark.slow
    def test_a_real_host_is_absent_while_it_is_frozen(self, tmp_path: Path) -> None:
        hosts = Hosts(tmp_path)
        try:
            host = hosts().come()
            assert ask_now(host.source(), PATIENCE).present
            host.freeze()
            assert not ask_now(host.source(), 0.5).present
            host.thaw()
            assert ask_now(host.source(), PATIENCE).present
        finally:
            hosts.end()

    def test_one_that_hangs_up_without_a_word_is_absent(self) -> None:
        with talker(hang_up=True) as (address, port):
            answer = ask_now(host_at(address, port), PATIENCE)
        assert answer == Answer(False, f"{address}:{port} did not answer: it hung up without a word")

    def test_one_that_speaks_another_protocol_is_left_to_its_engine(self) -> None:
        with talker(b"220 mail.example ESMTP\r\n") as (address, port):
            answer = ask_now(host_at(address, port), PATIENCE)
        assert answer.present
        assert answer.said == f"{address}:{port} answered, but not as an SSH host: '220 mail.example ESMTP'"

    @pytest.mark.parametrize("kind", ["s3", "webdav"])
    def test_a_web_server_is_present_when_it_accepts_a_connection(self, kind: str) -> None:
        with mute_host() as (address, port):
            answer = ask_now(host_at(f"http://{address}:{port}/x", None, kind), PATIENCE)
        assert answer == Answer(True, f"{address}:{port} answered")

    def test_a_port_where_nobody_listens_is_absent(self) -> None:
        address = loopback_address()
        port = free_port(address)
        answer = ask_now(host_at(address, port), PATIENCE)
        assert answer == Answer(False, f"{address}:{port} did not answer: Connection refused")

    @pytest.mark.timeout(20)  # the system itself would try for two minutes
    def test_a_host_that_is_switched_off_is_absent_after_the_timeout(self) -> None:
        address = another_address()
        with black_hole() as port:
            answer = ask_now(host_at(address, port), 0.2)
        assert answer == Answer(False, f"{address}:{port} did not answer within 0.2 s")

    @pytest.mark.parametrize(
        ("kind", "address", "port", "place"),
        [
            ("sftp", "laptop.example", None, ("laptop.example", 22)),
            ("sftp", "laptop.example", 2022, ("laptop.example", 2022)),
            ("postgresql", "db.example", None, ("db.example", 5432)),
            ("s3", "https://s3.example", None, ("s3.example", 443)),
            ("s3", "http://127.0.0.1:9000", None, ("127.0.0.1", 9000)),
            ("webdav", "http://cloud.example/dav", None, ("cloud.example", 80)),
            ("webdav", "https://[2001:db8::1]:8443/dav", None, ("2001:db8::1", 8443)),
        ],
    )
    def test_each_kind_is_asked_at_the_port_of_its_engine(
        self, kind: str, address: str, port: int | None, place: tuple[str, int]
    ) -> None:
        assert contact_point(Source(kind=kind, address=address, port=port)) == place


class TestNames:
    @pytest.mark.parametrize(
        "address", ["no-such-host.invalid", "two..dots", "x" * 64, "-oProxyCommand=true", "--help", "", "a\0b"]
    )
    def test_a_host_without_an_address_is_absent(self, address: str) -> None:
        answer = ask_now(host_at(address, 22), PATIENCE)
        assert not answer.present
        assert answer.said.startswith(f"{address}:22 did not answer")

    def test_names_that_nobody_answers_for_do_not_hold_up_those_that_are_known(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answering = threading.Event()

        def look_up(host: str, *arguments: Any, **named: Any) -> Any:
            if host != "known.example":
                answering.wait(PATIENCE)  # as a resolver whose server is silent
                raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
            return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (known, 0))]

        async def ask_all() -> tuple[Answer, float, list[Answer]]:
            loop = asyncio.get_running_loop()
            unknown = [asyncio.ensure_future(ask(host_at(f"laptop-{n}.example", 22), 1.5)) for n in range(200)]
            await asyncio.sleep(0)
            began_at = loop.time()
            answer = await ask(host_at("known.example", port), PATIENCE)
            return answer, loop.time() - began_at, await asyncio.gather(*unknown)

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        with talker(b"SSH-2.0-x\r\n") as (known, port):
            answer, seconds, others = asyncio.run(ask_all())
        answering.set()
        assert answer.present
        assert seconds < 1
        assert {other.said.partition(":22 ")[2] for other in others} == {"did not answer within 1.5 s"}

    def test_the_same_name_is_looked_up_once_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
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

    def test_every_address_of_a_name_is_tried(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(contact, "_look_up", lambda host: [refusing, silent, known])
        refusing = another_address()
        with talker(b"SSH-2.0-x\r\n") as (known, port), socket.create_server((another_address(), port)) as mute:
            silent = mute.getsockname()[0]
            assert ask_now(host_at("laptop.example", port), PATIENCE).present


class TestTheFirstOf:
    def test_the_next_address_is_asked_at_once_when_one_fails(self) -> None:
        asked: list[tuple[str, float]] = []

        async def ask_address(address: str) -> str:
            asked.append((address, asyncio.get_running_loop().time()))
            if address != "d":
                raise OSError(address)
            return address

        assert asyncio.run(first_of(["a", "b", "c", "d"], ask_address)) == "d"
        assert asked[-1][1] - asked[0][1] < contact.NEXT_ADDRESS_AFTER

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
            raise OSError(f"nobody at {address}")

        with pytest.raises(OSError, match="nobody at a"):
            asyncio.run(first_of(["a", "b"], refuse))


def database(**fields: Any) -> Source:
    """The test's own server as a source."""
    server = connection.get_connection_params()
    usual = {
        "address": server["host"],
        "port": int(server["port"]),
        "path": server["dbname"],
        "options": {"user": server["user"]},
        "secret": "env:SECRET_OF_THE_SHOP" if server.get("password") else "",
    }
    return Source(name="shop", kind="postgresql", **(usual | fields))


@pytest.mark.django_db
class TestDatabases:
    @pytest.fixture(autouse=True)
    def _secret(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SECRET_OF_THE_SHOP", connection.get_connection_params().get("password") or "")

    def test_a_server_that_answers_a_query_is_present(self) -> None:
        answer = ask_now(database(), PATIENCE)
        assert answer == Answer(True, f"{availability.place_of(database())} answered")

    @pytest.mark.parametrize(
        "fields",
        [{"secret": ""}, {"secret": "env:NOT_SET"}, {"options": {"user": "nobody"}}, {"path": "no such database"}],
    )
    def test_one_that_refuses_us_is_present(self, fields: dict[str, Any]) -> None:
        assert connection.get_connection_params().get("password"), "the test's server asks for a password"
        answer = ask_now(database(**fields), PATIENCE)
        assert answer.present
        assert "refused us" in answer.said

    def test_the_password_of_the_worker_itself_is_never_offered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PGPASSWORD", connection.get_connection_params()["password"])
        assert "no password supplied" in ask_now(database(secret=""), PATIENCE).said

    @pytest.mark.parametrize(
        ("code", "message"),
        [
            ("57P03", "the database system is starting up"),
            ("57P03", "the database system is shutting down"),
            ("53300", "sorry, too many clients already"),
            ("53300", "remaining connection slots are reserved for roles with the SUPERUSER attribute"),
            ("53300", 'too many connections for role "backup"'),
        ],
    )
    def test_one_that_takes_nobody_for_now_is_absent(self, code: str, message: str) -> None:
        with server_that_says(code, message) as (address, port):
            answer = ask_now(database(address=address, port=port), PATIENCE)
        assert answer == Answer(False, f"{address}:{port} did not answer: {message}")

    def test_one_that_refuses_a_password_by_message_is_present(self) -> None:
        message = 'password authentication failed for user "backup"'
        with server_that_says("28P01", message) as (address, port):
            answer = ask_now(database(address=address, port=port), PATIENCE)
        assert answer == Answer(True, f"{address}:{port} refused us: {message}")

    @pytest.mark.timeout(20)
    def test_one_that_hangs_is_absent_after_the_timeout(self) -> None:
        with mute_host() as (address, port):
            answer = ask_now(database(address=address, port=port), 0.3)
        assert answer == Answer(False, f"{address}:{port} did not answer within 0.3 s")

    def test_one_that_is_gone_is_absent(self, tmp_path: Path) -> None:
        port = free_port("127.0.0.1")
        for address in ("127.0.0.1", "localhost", str(tmp_path)):
            assert not ask_now(database(address=address, port=port), PATIENCE).present

    def test_one_that_hangs_up_is_absent(self) -> None:
        with talker(hang_up=True) as (address, port):
            assert not ask_now(database(address=address, port=port), PATIENCE).present

    def test_what_is_no_database_server_is_left_to_its_engine(self) -> None:
        with talker(b"220 mail.example ESMTP\r\n") as (address, port):
            answer = ask_now(database(address=address, port=port), PATIENCE)
        assert answer.present
        assert "refused us" in answer.said


@contextmanager
def server_that_says(code: str, message: str) -> Iterator[tuple[str, int]]:
    """A PostgreSQL server that refuses every connection with an error. Yields address and port."""
    fields = b"".join(key + value.encode() + b"\0" for key, value in ((b"S", "FATAL"), (b"C", code), (b"M", message)))
    error = b"E" + (len(fields) + 5).to_bytes(4, "big") + fields + b"\0"
    with socket.create_server((another_address(), 0)) as server:

        def refuse() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    while (request := client.recv(1024)) and request[4:8] == (80877103).to_bytes(4, "big"):
                        client.sendall(b"N")  # no TLS here
                    client.sendall(error)

        thread = threading.Thread(target=refuse, daemon=True)
        thread.start()
        yield server.getsockname()
        server.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)


def folder(path: Path | str, marker: str | None = None) -> Source:
    return Source(name="share", kind="local", path=str(path), options={"marker": marker} if marker else {})


class TestFolders:
    def test_a_folder_is_present_and_a_missing_one_is_not(self, tmp_path: Path) -> None:
        assert ask_now(folder(tmp_path), PATIENCE).present
        assert ask_now(folder(tmp_path / "gone"), PATIENCE) == Answer(False, f"there is no folder {tmp_path / 'gone'}")
        (tmp_path / "file").touch()
        assert not ask_now(folder(tmp_path / "file"), PATIENCE).present

    def test_an_empty_mount_point_is_not_the_expected_volume(self, tmp_path: Path) -> None:
        answer = ask_now(folder(tmp_path, marker=".volume"), PATIENCE)
        assert answer == Answer(False, f"{tmp_path} lacks its marker .volume: is the volume mounted?")
        (tmp_path / ".volume").touch()
        assert ask_now(folder(tmp_path, marker=".volume"), PATIENCE).present

    def test_a_folder_that_cannot_be_looked_at_is_absent(self, tmp_path: Path) -> None:
        unreadable = tmp_path / ("x" * 300)  # as a stale mount: the system answers with an error
        answer = ask_now(folder(unreadable), PATIENCE)
        assert answer == Answer(False, f"cannot look at {unreadable}: File name too long")

    def test_a_folder_that_does_not_answer_in_time_is_absent(self, tmp_path: Path) -> None:
        assert ask_now(folder(tmp_path), 0) == Answer(False, f"{tmp_path} did not answer within 0 s")


class TestDeadShares:
    """A share whose server is gone: whoever looks at it hangs, and cannot be interrupted."""

    @pytest.fixture
    def dead(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[int], Source]]:
        revived, really = threading.Event(), Path.is_dir

        def look(path: Path) -> bool:
            if path.name.startswith("dead"):
                self.hanging += 1
                revived.wait(PATIENCE)
            return really(path)

        self.hanging = 0
        monkeypatch.setattr(availability, "folders", BoundedThreads("look-at-folder", availability.FOLDER_THREADS))
        monkeypatch.setattr(Path, "is_dir", look)
        yield lambda number: folder(tmp_path / f"dead-{number}")
        revived.set()

    def test_it_holds_up_no_other_folder(self, dead: Callable[[int], Source], tmp_path: Path) -> None:
        async def ask_all() -> list[Answer]:
            hanging = [asyncio.ensure_future(ask(dead(number), 0.5)) for number in range(40)]
            await asyncio.sleep(0)
            answer = await ask(folder(tmp_path), PATIENCE)
            return [answer, *await asyncio.gather(*hanging)]

        answer, *others = asyncio.run(ask_all())
        assert answer.present
        assert not any(other.present for other in others)

    def test_it_holds_one_thread_however_often_it_is_asked(self, dead: Callable[[int], Source]) -> None:
        for _ in range(10):
            assert not ask_now(dead(1), 0.01).present
        eventually(lambda: self.hanging)
        assert self.hanging == 1

    def test_when_all_threads_hang_it_is_said_why_nobody_looks(
        self, dead: Callable[[int], Source], tmp_path: Path
    ) -> None:
        for number in range(availability.FOLDER_THREADS):
            assert not ask_now(dead(number), 0.001).present
        answer = ask_now(folder(tmp_path), 0.1)
        assert not answer.present
        assert answer.said.endswith("within 0.1 s: 64 folders hang; is a share of this worker dead?")


class TestBoundedThreads:
    def test_never_more_than_the_limit_run_and_all_calls_are_made(self) -> None:
        threads, running, most, lock = BoundedThreads("test", 3), [0], [0], threading.Lock()

        def work(number: int) -> int:
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            time.sleep(0.002)
            with lock:
                running[0] -= 1
            return number

        async def call_all() -> list[int]:
            return await asyncio.gather(*(threads.call(n, lambda n=n: work(n)) for n in range(30)))

        assert asyncio.run(call_all()) == list(range(30))
        assert most == [3]

    def test_an_error_reaches_everybody_who_asked(self) -> None:
        threads = BoundedThreads("test", 2)

        def break_down() -> None:
            raise KeyError("x")

        async def call_twice() -> list[object]:
            calls = [threads.call("one", break_down) for _ in range(2)]
            return await asyncio.gather(*calls, return_exceptions=True)

        assert [type(error) for error in asyncio.run(call_twice())] == [KeyError, KeyError]

    def test_idle_threads_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sources.bounded_threads.IDLE_SECONDS", 0.05)
        threads = BoundedThreads("soon-idle", 5)
        assert threads.call_now(1, lambda: 7, PATIENCE) == 7
        eventually(lambda: "soon-idle" not in [thread.name for thread in threading.enumerate()])
        assert threads.call_now(1, lambda: 8, PATIENCE) == 8

    def test_a_hung_call_does_not_keep_the_process_from_ending(self) -> None:
        script = (
            "import asyncio, threading\n"
            "from sources.bounded_threads import BoundedThreads\n"
            "hang = lambda: threading.Event().wait()\n"
            "try: asyncio.run(asyncio.wait_for(BoundedThreads('hung', 1).call('k', hang), 0.05))\n"
            "except TimeoutError: pass\n"
        )
        ended = subprocess.run([sys.executable, "-c", script], cwd=settings.BASE_DIR, timeout=PATIENCE)
        assert ended.returncode == 0
