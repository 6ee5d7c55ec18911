"""A server that plays the contract of the API, as a thread of the test, over real HTTP on loopback."""

import json
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

TOKEN = "bsa_the-first-token-of-the-test"
RENEWED = "bsa_the-second-token-of-the-test"
CODE = "K7QP-2M4X-9TBD-H3WA"

STATUS = {
    "source": "laptop",
    "server_time": "2026-11-21T12:00:00Z",
    "interval": 300,
    "status": "protected",
    "assignments": [
        {
            "policy": "laptops",
            "status": "protected",
            "last_backup_at": "2026-11-21T09:00:00.123Z",
            "proved_at": "2026-11-20T09:00:00.123Z",
            "next_backup_at": "2026-11-22T09:00:00Z",
            "backlog": None,
        }
    ],
    "snoozed_until": None,
    "paused": False,
}

USUAL: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {
    ("POST", "/api/enrol"): (201, {"token": TOKEN, "source": "laptop", "interval": 300, "server_time": "x"}),
    ("POST", "/api/check-in"): (200, STATUS),
    ("GET", "/api/agent/status"): (200, STATUS),
    ("POST", "/api/agent/back-up-now"): (200, {"moved": 1}),
    ("POST", "/api/agent/snooze"): (200, {"snoozed_until": "2026-11-21T14:00:00Z"}),
    ("DELETE", "/api/agent/snooze"): (200, {"snoozed_until": None}),
    ("POST", "/api/agent/rotate"): (200, {"token": RENEWED}),
}


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float = field(default_factory=time.monotonic)
    """The instant of the request, in seconds of the monotonic clock."""

    @property
    def token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")


@dataclass(frozen=True)
class Answer:
    """One answer; `body` as JSON unless it is bytes already."""

    status: int = 200
    body: dict[str, Any] | bytes = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def raw(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def no(status: int, error: str = "not accepted", hint: str = "do something", **headers: str) -> Answer:
    """An error as the API tells it: a problem document."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, problem(status, error, hint), {"Content-Type": "application/problem+json", **named})


def problem(status: int, detail: str, hint: str) -> dict[str, Any]:
    """A problem document (RFC 9457)."""
    title = HTTPStatus(status).phrase
    return {"type": "about:blank", "title": title, "status": status, "detail": detail, "hint": hint}


class ContractServer:
    """Answers as the contract says, and as the test says first: each of `next_answers` once, in order.

    `meanwhile` is called before each answer, with the request.
    """

    def __init__(self, port: int = 0, context: ssl.SSLContext | None = None, address: str = "127.0.0.1") -> None:
        self.asked: list[Asked] = []
        self.next_answers: deque[Answer] = deque()
        self.always: Answer | None = None
        self.meanwhile: Callable[[Asked], None] = lambda asked: None
        self._server = ThreadingHTTPServer((address, port), _handler(self))
        self._server.daemon_threads = True
        if context:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "https" if context else "http"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"{self._scheme}://{self._server.server_address[0]!s}:{self.port}"

    def check_ins(self) -> list[dict[str, Any]]:
        return [asked.body for asked in self.asked if asked.path == "/api/check-in"]

    def reasons(self) -> list[str]:
        return [body["reason"] for body in self.check_ins()]

    def answer(self, asked: Asked) -> Answer:
        self.meanwhile(asked)
        self.asked.append(asked)
        if self.next_answers:
            return self.next_answers.popleft()
        if self.always:
            return self.always
        status, body = USUAL.get((asked.method, asked.path), (404, problem(404, "there is nothing here", "")))
        return Answer(status, body)


def _handler(server: ContractServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_any(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = Asked(self.command, self.path, dict(self.headers), json.loads(raw) if raw else {})
            answer = server.answer(asked)
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            raw = answer.raw()
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_DELETE = do_any

        def log_message(self, *_: object) -> None:
            """Nothing: the test looks at `asked`."""

    return Handler
