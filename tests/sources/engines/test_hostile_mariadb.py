"""A database server that asks for what it must not get: the password in clear, and files of the worker's host."""

import dataclasses
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sources.engines import questions
from sources.engines.base import RunEnded, SourceSpec, Verdict
from tests.sources.engines.peers import PASSWORD, back_up, listening, specification
from tests.waiting import PATIENCE

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


@pytest.mark.parametrize("answers", [(SEND,), (OK, SEND)], ids=["to mariadb", "to mariadb-dump"])
def test_a_server_gets_no_file_of_this_host(answers: tuple[bytes, ...], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of this host")
    with server(OK, *(each + str(secret).encode() if each == SEND else each for each in answers)) as (source, heard):
        (tmp_path / "repository").mkdir()
        assert back_up(source, tmp_path / "repository/copy").verdict is not Verdict.SUCCEEDED
        assert b"SHOW" in b"".join(heard)
        assert b"of this host" not in b"".join(heard)
