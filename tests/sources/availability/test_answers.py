"""Is it there? Real ports, sockets, servers and folders on this machine."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from external.network.bounded_threads import BoundedThreads
from sources.availability import probes
from sources.availability.probes import Answer, ask, ask_now, contact_point
from sources.models import Source
from tests.delivery.certificates import make_certificate, served_with
from tests.engines.peers import free_port, listening
from tests.sources.hosts import another_address
from tests.sources.strangers import black_hole, host_at, mute_host, talker
from tests.waiting import PATIENCE, eventually

SSH, WEB, MAIL = b"SSH-2.0-OpenSSH_9.9\r\n", b"HTTP/1.1 500 Oh\r\n\r\n", b"220 mail.example ESMTP\r\n"


class TestPorts:
    @pytest.mark.parametrize(
        ("kind", "address", "greeting", "reason"),
        [
            ("sftp", "{}", SSH, "answered"),
            ("sftp", "{}", MAIL, "answered, but not as an SSH host"),  # what it sends is not repeated
            ("sftp", "{}", b"", "did not answer: it hung up without a word"),
            ("s3", "http://{}:{}", WEB, "answered"),
            ("webdav", "http://{}:{}/dav", MAIL, "answered"),
            ("webdav", "http://{}:{}", b"", "did not answer: it hung up without a word"),
            ("s3", "https://{}:{}", WEB, "answered"),  # no TLS: its engine says so
            ("webdav", "https://{}:{}", b"", None),
        ],
    )
    def test_what_a_host_says_decides_whether_it_is_there(
        self, kind: str, address: str, greeting: bytes, reason: str | None
    ) -> None:
        with talker(*([greeting] if greeting else []), hang_up=not greeting) as (host, port):
            answer = ask_now(host_at(address.format(host, port), port if kind == "sftp" else None, kind), PATIENCE)
        assert answer.present is bool(greeting)
        assert reason is None or answer.text == f"{host}:{port} {reason}"

    @pytest.mark.timeout(2 * PATIENCE)
    @pytest.mark.parametrize(("kind", "address"), [("sftp", "{}"), ("s3", "http://{}:{}"), ("webdav", "https://{}:{}")])
    def test_a_frozen_host_accepts_connections_and_is_absent_all_the_same(self, kind: str, address: str) -> None:
        with mute_host() as (host, port):
            source = host_at(address.format(host, port), port if kind == "sftp" else None, kind)
            assert ask_now(source, 0.2) == Answer(False, f"{host}:{port} did not answer within 0.2 s")

    def test_a_web_server_is_present_whatever_its_certificate(self, tmp_path: Path) -> None:
        """One of its own making, for another host."""
        tls = served_with(make_certificate(tmp_path, "192.0.2.1"))
        with listening(lambda client: tls.wrap_socket(client, server_side=True).close()) as (address, port):
            answer = ask_now(host_at(f"https://{address}:{port}", None, "webdav"), PATIENCE)
        assert answer == Answer(True, f"{address}:{port} answered")

    @pytest.mark.timeout(2 * PATIENCE)  # the system itself would try for two minutes
    def test_a_host_that_is_switched_off_is_absent_after_the_timeout_and_one_that_refuses_at_once(self) -> None:
        address = another_address()
        with black_hole() as port:
            answer = ask_now(host_at(address, port), 0.2)
        assert answer == Answer(False, f"{address}:{port} did not answer within 0.2 s")
        answer = ask_now(host_at(address, port := free_port(address)), PATIENCE)
        assert answer == Answer(False, f"{address}:{port} did not answer: Connection refused")

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


def folder(path: Path | str, marker: str | None = None) -> Source:
    return Source(name="share", kind="local", path=str(path), options={"marker": marker} if marker else {})


def test_a_folder_is_there_if_it_is_one_is_the_expected_volume_and_can_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    too_long = tmp_path / ("x" * 300)  # as a stale mount: the system answers with an error
    for path, marker, text in (
        (tmp_path, None, None),
        (tmp_path / "gone", None, f"there is no folder {tmp_path / 'gone'}"),
        (tmp_path / "file", None, f"there is no folder {tmp_path / 'file'}"),
        (tmp_path, ".volume", f"{tmp_path} lacks its marker .volume: is the volume mounted?"),
        (tmp_path, "file", None),
        (too_long, None, f"cannot look at {too_long}: File name too long"),
    ):
        answer = ask_now(folder(path, marker), PATIENCE)
        assert answer == Answer(text is None, text or f"{path} is there")


class TestDeadShares:
    """A share whose server is gone: a look at it hangs, and cannot be interrupted."""

    @pytest.fixture
    def dead(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[int], Source]]:
        revived, really = threading.Event(), Path.is_dir

        def look(path: Path) -> bool:
            if path.name.startswith("dead"):
                self.hanging += 1
                revived.wait(PATIENCE)
            return really(path)

        self.hanging = 0
        monkeypatch.setattr(probes, "folders", BoundedThreads("look-at-folder", probes.FOLDER_THREADS))
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

    def test_when_all_threads_hang_the_answer_says_so(self, dead: Callable[[int], Source], tmp_path: Path) -> None:
        for number in range(probes.FOLDER_THREADS):
            assert not ask_now(dead(number), 0.001).present
        answer = ask_now(folder(tmp_path), 0.1)
        assert not answer.present
        assert answer.text.endswith("within 0.1 s: 64 folders hang; is a share of this worker dead?")
