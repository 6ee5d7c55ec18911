"""Database servers that lie, and ask for what they must not get: words without end, the password in clear, files."""

import dataclasses
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from backups import repository_orders
from engines.at_repositories import questions
from engines.base import EngineProgress, EngineResult, RunEnded, SourceSpec, Verdict
from engines.results import ERROR_LENGTH
from sources.availability.probes import Answer, ask_now
from sources.models import Source
from tests.engines.peers import PASSWORD, back_up, listening, specification, task_for
from tests.programs import needs_mariadb_client
from tests.waiting import PATIENCE


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


TOO_MUCH = 2**28
READY = message(b"Z", b"I")
WELCOME = message(b"R", bytes(4)) + message(b"S", b"server_version\0" + b"18.0\0") + READY
SETTING = message(b"S", b"application_name\0x\0")
ROW = message(b"D", struct.pack("!hi", 1, 1000) + b"x" * 1000) * 1000
COLUMNS = message(b"T", struct.pack("!h", 1) + b"name\0" + struct.pack("!ihihih", 0, 0, 25, -1, -1, 0))
REFUSAL = message(b"E", b"SERROR\0VERROR\0C42501\0M" + b"\x1b[31mno\r\n" * 20_000 + b"\0\0")


@contextmanager
def hostile_server(
    answer: bytes, again: bytes = b"", welcome: tuple[bytes, bytes] = (WELCOME, b"")
) -> Iterator[SourceSpec]:
    """Its `welcome`, and then each of its answers, is some bytes, and others again and again if there are any."""

    def say(client: socket.socket, first: bytes, again: bytes) -> None:
        client.sendall(first)
        while again:
            client.sendall(again)

    def talk(client: socket.socket) -> None:
        client.recv(65_536)
        say(client, *welcome)
        while client.recv(65_536):
            say(client, answer, again)

    options = {"user": "backup", "sslmode": "disable"}
    with listening(talk) as (address, port):
        yield specification("postgresql", address, port=port, path="shop", options=options, secret=None)


def asked(host: SourceSpec) -> Answer:
    return ask_now(
        Source(kind="postgresql", address=host.address, port=host.port, path=host.path, options=host.options), PATIENCE
    )


def dump(source: SourceSpec, destination: Path, stall_timeout: float = PATIENCE) -> tuple[EngineResult, int]:
    """Returns the result, and the most memory that pg_dump was seen to hold."""
    most, stop = 0, threading.Event()

    def look(_: EngineProgress) -> None:
        nonlocal most
        with suppress(psutil.Error):
            programs = psutil.Process().children(recursive=True)
            most = max([most, *(each.memory_info().rss for each in programs if each.name() == "pg_dump")])
            if most > TOO_MUCH:
                stop.set()

    task = task_for(source, destination / "copy", stall_timeout=stall_timeout)
    return repository_orders.back_up(task, on_progress=look, stop=stop), most


@pytest.mark.slow
def test_rows_without_end_do_not_fill_the_memory_and_count_as_no_progress(tmp_path: Path, settings: Any) -> None:
    settings.ENGINE_MEMORY_MIB = 96
    with hostile_server(COLUMNS, ROW) as source:
        result, most = dump(source, tmp_path, stall_timeout=4)
    assert result.verdict is Verdict.SOURCE_FAILED, result.error
    assert "nothing moved for 4 s" in result.error
    assert 0 < most < TOO_MUCH
    assert list((tmp_path / "copy/files").iterdir()) == []


def test_answers_without_end_are_bounded_when_it_is_asked_whether_it_is_there() -> None:
    with hostile_server(COLUMNS, ROW) as host:
        assert asked(host).present
    with hostile_server(b"", welcome=(message(b"R", bytes(4)), SETTING * 10_000)) as host:
        answer = asked(host)  # it tells its settings before it says that it is ready
        assert (answer.present, "it sends without end" in answer.text) == (False, True)


def test_words_without_end_are_cut(tmp_path: Path) -> None:
    with hostile_server(REFUSAL + READY) as source:
        result, _ = dump(source, tmp_path)
    assert result.verdict is Verdict.SOURCE_FAILED
    assert "no" in result.error
    assert 0 < len(result.error) <= ERROR_LENGTH


CAPABILITIES = 0x0008A281
"""Protocol 4.1, plugins of authentication, transactions, local files."""
GREETING = (
    b"\n11.4.0-MariaDB\0" + bytes(4) + b"saltsalt\0" + (CAPABILITIES & 0xFFFF).to_bytes(2, "little") + b"\x2d\2\0"
    + (CAPABILITIES >> 16).to_bytes(2, "little") + b"\x15" + bytes(10) + b"saltsaltsalt\0mysql_native_password\0"
)  # fmt: skip
OK = b"\0\0\0\2\0\0\0"
IN_CLEAR = b"\xfemysql_clear_password\0"
SEND = b"\xfb"
QUERY, QUIT = 3, 1


@contextmanager
def server(welcome: bytes, *answers: bytes) -> Iterator[tuple[SourceSpec, list[bytes]]]:
    """It greets, says `welcome`, and answers the queries of the first connection with the first answer, and so on.
    Yields what it was sent."""
    heard, left = list[bytes](), list(answers)

    def packet(client: socket.socket, number: int, payload: bytes) -> bytes:
        client.sendall(len(payload).to_bytes(3, "little") + bytes((number,)) + payload)
        heard.append(client.recv(65_536))
        return heard[-1]

    def talk(client: socket.socket) -> None:
        answer = left.pop(0) if left else OK
        with suppress(IndexError):
            asked = packet(client, 0, GREETING)
            asked = packet(client, asked[3] + 1, welcome)
            while asked[4] != QUIT:
                asked = packet(client, asked[3] + 1, answer if asked[4] == QUERY else OK)

    options = {"user": "backup", "sslmode": "disable"}
    with listening(talk) as (address, port):
        yield specification("mariadb", address, port=port, path="shop", options=options), heard


@needs_mariadb_client
def test_the_password_is_shown_to_no_server_that_asks_for_it_and_one_that_encrypts_nothing_is_not_read() -> None:
    with server(IN_CLEAR) as (source, heard):
        with pytest.raises(RunEnded, match="would show it to another server"):
            questions.look(source, PATIENCE, threading.Event())
        assert heard
        assert PASSWORD.encode() not in b"".join(heard)
    with server(OK) as (source, heard):
        asked = dataclasses.replace(source, options=source.options | {"sslmode": "require"})
        with pytest.raises(RunEnded, match="the server encrypts no connections, so nothing was read"):
            questions.look(asked, PATIENCE, threading.Event())
        assert b"FULL TABLES" not in b"".join(heard)


@needs_mariadb_client
@pytest.mark.parametrize("answers", [(SEND,), (OK, SEND)], ids=["to mariadb", "to mariadb-dump"])
def test_a_server_gets_no_file_of_this_host(answers: tuple[bytes, ...], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of this host")
    with server(OK, *(each + str(secret).encode() if each == SEND else each for each in answers)) as (source, heard):
        (tmp_path / "repository").mkdir()
        assert back_up(source, tmp_path / "repository/copy").verdict is not Verdict.SUCCEEDED
        assert b"SHOW" in b"".join(heard)
        assert b"of this host" not in b"".join(heard)
