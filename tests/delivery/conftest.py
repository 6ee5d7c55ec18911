"""Loopback is allowed, as an operator would allow it."""

from collections.abc import Iterator
from typing import Any

import pytest

from delivery import targets
from delivery.sqs import signature
from tests.delivery.queue_servers import CREDENTIALS, QueueServer, ScriptedServer, queue_server, scripted_server
from tests.waiting import PATIENCE

LOOPBACK = "127.0.0.1"


@pytest.fixture(autouse=True)
def _known_for_long(monkeypatch) -> None:
    """Names looked up a moment ago are still known, though this machine may have stood still in the meantime."""
    monkeypatch.setattr(targets, "FRESH_SECONDS", 2 * PATIENCE)


@pytest.fixture
def allow(settings):
    """Let these networks and hosts be delivered to, and no others."""

    def put(*entries: str) -> None:
        settings.CALLBACKS_ALLOWED = list(entries)

    return put


@pytest.fixture
def _loopback_allowed(allow) -> None:
    allow(LOOPBACK)


@pytest.fixture
def _worker_of_queues(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials in the environment and no region; loopback is allowed; no session of another test."""
    settings.CALLBACKS_ALLOWED = ["127.0.0.0/8"]
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(signature, "_session", None)


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueServer]:
    """A real server of queues; each test makes a queue of its own."""
    with queue_server(tmp_path_factory.mktemp("queues")) as running:
        yield running


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running
