"""Orders to an rclone that serves its remote control on a socket of this host."""

import http.client
import json
import socket
from pathlib import Path
from typing import Any

ANSWER_SECONDS = 86_400.0
"""Seconds for an answer: a file may be large. A run that is ended ends rclone, and so the wait."""


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


def ask(socket_file: Path, what: str, order: dict[str, Any]) -> dict[str, Any]:
    """Give rclone an order through its socket. Returns its answer. Raises: OSError."""
    connection = _Connection(socket_file)
    try:
        connection.request("POST", f"/{what}", json.dumps(order), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(str(error)) from None
    finally:
        connection.close()
    return answer if isinstance(answer, dict) else {}


class _Connection(http.client.HTTPConnection):
    def __init__(self, socket_file: Path) -> None:
        super().__init__("rclone", timeout=ANSWER_SECONDS)
        self._socket_file = socket_file

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._socket_file))
