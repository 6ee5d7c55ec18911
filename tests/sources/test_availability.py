"""Is it there? Real ports, sockets and folders on this machine."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sources.availability import Answer, ask_now, contact_point
from sources.models import Source
from tests.sources.engines.peers import free_port, loopback_address

PATIENCE = 20.0
"""Seconds: no test waits so long unless something is broken."""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port that answers."""
    with socket.create_server((loopback_address(), 0)) as server:
        yield server


def host_at(address: str, port: int | None) -> Source:
    return Source(name="laptop", kind="sftp", address=address, port=port)


def test_a_port_that_accepts_a_connection_is_present(listener: socket.socket) -> None:
    address, port = listener.getsockname()
    assert ask_now(host_at(address, port), PATIENCE) == Answer(True, f"{address}:{port} answered")


def test_a_port_where_nobody_listens_is_absent() -> None:
    address = loopback_address()
    port = free_port(address)
    answer = ask_now(host_at(address, port), PATIENCE)
    assert not answer.present
    assert answer.said.startswith(f"{address}:{port} did not answer: ")


@pytest.mark.timeout(20)  # the system itself would try for two minutes
def test_a_silent_port_is_absent_after_the_timeout() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind((loopback_address(), 0))
        server.listen(0)
        # nobody accepts: once its queue is full, further connections hang
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        address, port = server.getsockname()
        assert ask_now(host_at(address, port), 0.2) == Answer(False, f"{address}:{port} did not answer within 0.2 s")


@pytest.mark.parametrize("address", ["no-such-host.invalid", "two..dots", "x" * 64])
def test_a_host_without_an_address_is_absent(address: str) -> None:
    answer = ask_now(host_at(address, 22), PATIENCE)
    assert not answer.present
    assert answer.said.startswith(f"{address}:22 did not answer")


def test_a_database_is_asked_at_the_socket_in_its_directory(tmp_path: Path) -> None:
    source = Source(name="shop", kind="postgresql", address=str(tmp_path), port=5433)
    assert not ask_now(source, PATIENCE).present
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / ".s.PGSQL.5433"))
        server.listen()
        assert ask_now(source, PATIENCE) == Answer(True, f"{tmp_path}/.s.PGSQL.5433 answered")


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
    kind: str, address: str, port: int | None, place: tuple[str, int]
) -> None:
    assert contact_point(Source(kind=kind, address=address, port=port)) == place


def folder(path: Path | str, marker: str | None = None) -> Source:
    return Source(name="share", kind="local", path=str(path), options={"marker": marker} if marker else {})


def test_a_folder_is_present_and_a_missing_one_is_not(tmp_path: Path) -> None:
    assert ask_now(folder(tmp_path), PATIENCE).present
    assert ask_now(folder(tmp_path / "gone"), PATIENCE) == Answer(False, f"there is no folder {tmp_path / 'gone'}")
    (tmp_path / "file").touch()
    assert not ask_now(folder(tmp_path / "file"), PATIENCE).present


def test_an_empty_mount_point_is_not_the_expected_volume(tmp_path: Path) -> None:
    answer = ask_now(folder(tmp_path, marker=".volume"), PATIENCE)
    assert answer == Answer(False, f"{tmp_path} lacks its marker .volume: is the volume mounted?")
    (tmp_path / ".volume").touch()
    assert ask_now(folder(tmp_path, marker=".volume"), PATIENCE).present


def test_a_folder_that_cannot_be_looked_at_is_absent(tmp_path: Path) -> None:
    unreadable = tmp_path / ("x" * 300)  # as a stale mount: the system answers with an error
    answer = ask_now(folder(unreadable), PATIENCE)
    assert answer == Answer(False, f"cannot look at {unreadable}: File name too long")


def test_a_folder_that_does_not_answer_in_time_is_absent(tmp_path: Path) -> None:
    assert ask_now(folder(tmp_path), 0) == Answer(False, f"{tmp_path} did not answer within 0 s")
