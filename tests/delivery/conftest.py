"""Loopback is allowed, as an operator would allow it."""

import pytest

from delivery.http import lookup
from tests.waiting import PATIENCE

LOOPBACK = "127.0.0.1"


@pytest.fixture(autouse=True)
def _known_for_long(monkeypatch) -> None:
    """What was looked up a moment ago is still known, though this machine may have stood still meanwhile."""
    monkeypatch.setattr(lookup, "FRESH_SECONDS", 2 * PATIENCE)


@pytest.fixture
def allow(settings):
    """Let these networks and hosts be delivered to, and no others."""

    def put(*entries: str) -> None:
        settings.CALLBACKS_ALLOWED = list(entries)

    return put


@pytest.fixture
def _loopback_allowed(allow) -> None:
    allow(LOOPBACK)
