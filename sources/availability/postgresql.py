"""The question whether a PostgreSQL server answers: a real connection and `SELECT 1`, with the source's user and
secret.

A server that refuses us (wrong password, no such database) is there: pg_dump will report the problem, which is a
failure. One that starts up, shuts down or has no connection left is not there for now.
"""

import re
from asyncio import Event, get_running_loop
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import ExecStatus, PGconn, PollingStatus
from psycopg.pq.abc import PGconn as Connection

from engines.cleartext import libpq_parameters
from engines.postgresql.engine import NOT_FOR_NOW
from external.network import contact
from external.redaction import redacted
from sealing.lookup import SecretNotFound, read_regular_file, read_secret_in_queue, secrets
from sources import planning
from sources.models import Source

REFUSED = re.compile(r"FATAL: |no password supplied|authentication|certificate|SSL (?!SYSCALL)")
"""Text of the server, or of libpq about a demand of the server."""
PREAMBLE = re.compile(r"^(connection failed: )?(connection to server (at|on) .*? failed: )?", re.DOTALL)
LONGEST_MESSAGE = 300
SYSTEM = "system"
"""The certificates that the operating system trusts."""
LONGEST_CERTIFICATES = 2**20
MOST_READS = 1_000
"""The most reads of a socket for one question. Rows, words or settings without end would fill the memory
of the worker.
"""
ENDLESS = "it sends without end"


async def ask_server(source: Source, place: str, address: str, timeout: float) -> str:
    """Ask the server of `source` at `address` (an IP address, or the directory of its socket); return its answer.

    `timeout` in seconds is libpq's; the caller cancels this before.

    Raises: OSError with the reason why there is no answer for now.
    """
    try:
        queue = planning.ARRIVALS if contact.is_arrival.get() else planning.AVAILABILITY
        secret = await read_secret_in_queue(source.secret, queue)
    except SecretNotFound:
        secret = None  # the backup will report that
    try:
        await _look_at_certificates(source.options.get("sslrootcert", SYSTEM))
    except SecretNotFound as error:
        return f"{place} was not asked: {error}"
    try:
        answer = await _ask(_connection_string(source, address, timeout, secret), place)
    except OSError as error:
        raise OSError(_quoted(str(error), secret)) from None
    return _quoted(answer, secret)


async def _look_at_certificates(file: str) -> None:
    """libpq reads the file in this thread: a FIFO, or a share that is away, would keep the event loop from turning.

    Raises: SecretNotFound.
    """
    if file != SYSTEM:
        await secrets.call(
            file, partial(read_regular_file, Path(file), "the file of certificates", LONGEST_CERTIFICATES)
        )


def _quoted(text: str, secret: str | None) -> str:
    return redacted(text, [secret or ""])[:LONGEST_MESSAGE]


async def _ask(connection_string: str, place: str) -> str:
    """Raises: OSError."""
    connection = PGconn.connect_start(connection_string.encode())
    try:
        if not await _is_connected(connection):
            return f"{place} refused us: {_refusal(connection.get_error_message())}"
        await _select_1(connection)
    except psycopg.Error as error:
        raise OSError(_first_line(str(error))) from None
    finally:
        connection.finish()
    return f"{place} answered"


async def _is_connected(connection: Connection) -> bool:
    """True if the server lets us in. Raises: OSError when it sends without end."""
    for _ in range(MOST_READS):
        match connection.connect_poll():
            case PollingStatus.OK:
                return True
            case PollingStatus.READING:
                await _until(connection, get_running_loop().add_reader, get_running_loop().remove_reader)
            case PollingStatus.WRITING:
                await _until(connection, get_running_loop().add_writer, get_running_loop().remove_writer)
            case _:
                return False
    raise OSError(ENDLESS)


async def _select_1(connection: Connection) -> None:
    """Return at the first row. Raises: OSError; psycopg.Error."""
    connection.send_query(b"SELECT 1")
    connection.set_single_row_mode()
    for _ in range(MOST_READS):
        await _until(connection, get_running_loop().add_reader, get_running_loop().remove_reader)
        connection.consume_input()
        if not connection.is_busy():
            result = connection.get_result()
            if result is None or result.status not in (ExecStatus.SINGLE_TUPLE, ExecStatus.TUPLES_OK):
                raise OSError(_first_line(result.get_error_message() if result else ""))
            return
    raise OSError(ENDLESS)


async def _until(connection: Connection, add: Callable[..., None], remove: Callable[[int], Any]) -> None:
    """Return once its socket is ready, as reported by the event loop's `add`."""
    ready, socket = Event(), connection.socket
    add(socket, ready.set)
    try:
        await ready.wait()
    finally:
        remove(socket)


def _connection_string(source: Source, address: str, timeout: float, secret: str | None) -> str:
    parameters: dict[str, Any] = {
        "host": source.address,
        "port": source.port or 5432,
        "dbname": source.path,
        # never empty-handed: else libpq would offer the worker's own PGPASSWORD
        "password": secret or "",
        "connect_timeout": max(2, round(timeout) + 1),
        "application_name": "backup",
        # asking for a ticket may block, and needs no answer here
        "gssencmode": "disable",
        "require_auth": "!gss,!sspi",
    }
    parameters |= libpq_parameters(secret, source.options)
    if user := source.options.get("user"):
        parameters["user"] = str(user)
    if not address.startswith("/"):
        parameters["hostaddr"] = address  # looked up already, in our own threads
    return make_conninfo(**parameters)


def _refusal(text: str) -> str:
    """The refusal of a server that is there. Raises: OSError when none is there, or "not for now"."""
    text = PREAMBLE.sub("", text)
    if NOT_FOR_NOW.search(text) or not REFUSED.search(text):
        raise OSError(_first_line(text)) from None
    return _first_line(text)


def _first_line(text: str) -> str:
    lines = text.removeprefix("FATAL:").strip().splitlines()
    return lines[0] if lines else "no reason given"
