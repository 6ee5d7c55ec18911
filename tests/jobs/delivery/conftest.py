"""Loopback is allowed, as an operator would allow it."""

import pytest

LOOPBACK = "127.0.0.1"


@pytest.fixture
def allow(settings):
    """Let these networks and hosts be delivered to, and no others."""

    def put(*entries: str) -> None:
        settings.JOBS = {**settings.JOBS, "CALLBACKS_ALLOWED": list(entries)}

    return put


@pytest.fixture
def _loopback_allowed(allow) -> None:
    allow(LOOPBACK)
