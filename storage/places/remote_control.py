"""Orders to an rclone that serves its remote control on a socket on this host."""

import http.client
import json
import socket
import tempfile
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

from external.processes.advice import without_middle
from external.redaction import redacted
from storage.places.servers import explained

ADDRESS = "--rc-addr=unix://"
LOOK_EVERY_SECONDS = 0.02
"""Seconds between two looks for rclone's socket."""
ANSWER_SECONDS = 86_400.0
"""Seconds for an answer: a file may be large. A run that is ended ends rclone, and so the wait."""
STATISTICS_EVERY_SECONDS, STATISTICS_SECONDS = 1.0, 5.0


def obeyed(
    serve: Callable[[tuple[str, ...]], object],
    orders: Iterable[tuple[str, str, dict[str, Any]]],
    on_answer: Callable[[str, dict[str, Any]], None],
    hidden: Collection[str],
) -> bool:
    """Give an rclone orders, one after another, and then the order to quit: each with the path that it is about, its
    name and its parameters. `serve` runs it, with these arguments, until it ends. `on_answer` gets the path and the
    answer of each order before the next order is drawn; with an "error" if it failed, in one line, without a server's
    words and the texts in `hidden`. Returns False if rclone ended before it had all of them. Raises: what `serve` does.
    """
    ended, done = Event(), Event()

    def tell() -> None:
        while not accepts(socket_file) and not ended.wait(LOOK_EVERY_SECONDS):
            pass
        try:
            for path, what, order in orders:
                answer = ask(socket_file, what, order)
                if error := answer.get("error"):  # of WebDAV it is all that the server sent
                    answer["error"] = explained(without_middle(redacted(str(error), hidden)))
                on_answer(path, answer)
            done.set()
        except OSError:  # rclone was ended
            pass
        finally:
            while not _has_quit(socket_file) and not ended.wait(LOOK_EVERY_SECONDS):
                pass

    with tempfile.TemporaryDirectory() as scratch:
        socket_file = Path(scratch) / "rclone"
        teller = Thread(target=tell, daemon=True)
        teller.start()
        try:
            serve(("rcd", f"{ADDRESS}{socket_file}", "--rc-no-auth"))
        finally:
            ended.set()
            teller.join()
    return done.is_set()


class Statistics:
    """The statistics of a serving rclone, which prints none. Each call asks for them, at most once a second, and passes
    them to `take` in a line as other commands print it. `arguments`: those with which `obeyed` has it served.
    """

    def __init__(self, arguments: Iterable[str], take: Callable[[str], object]) -> None:
        [socket_file] = [each.removeprefix(ADDRESS) for each in arguments if each.startswith(ADDRESS)]
        self._socket_file, self._take, self._next = Path(socket_file), take, 0.0

    def __call__(self) -> None:
        if (now := time.monotonic()) >= self._next:
            self._next = now + STATISTICS_EVERY_SECONDS
            with suppress(OSError):  # it does not listen yet, or no longer does
                stats = ask(self._socket_file, "core/stats", {}, STATISTICS_SECONDS)
                self._take(json.dumps({"level": "notice", "stats": stats}, separators=(",", ":")))


def accepts(socket_file: Path) -> bool:
    """True if rclone accepts connections. Its socket has a file before it listens, and refuses until it does."""
    connection = _Connection(socket_file)
    try:
        connection.connect()
    except OSError:
        return False
    finally:
        connection.close()
    return True


def ask(socket_file: Path, what: str, order: dict[str, Any], seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
    """Give rclone an order through its socket. Returns its answer, which must come in `seconds`. Raises: OSError."""
    connection = _Connection(socket_file, seconds)
    try:
        connection.request("POST", f"/{what}", json.dumps(order), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(str(error)) from None
    finally:
        connection.close()
    return answer if isinstance(answer, dict) else {}


def _has_quit(socket_file: Path) -> bool:
    """Tell rclone to quit. Returns False if the order did not get through."""
    try:
        ask(socket_file, "core/quit", {})
    except OSError:
        return False
    return True


class _Connection(http.client.HTTPConnection):
    def __init__(self, socket_file: Path, seconds: float = ANSWER_SECONDS) -> None:
        super().__init__("rclone", timeout=seconds)
        self._socket_file = socket_file

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._socket_file))
