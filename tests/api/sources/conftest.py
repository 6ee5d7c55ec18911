"""No request of one test counts against the limits of another, and no minute ends while a test counts."""

from collections.abc import Iterator

import pytest
from django.core.cache import caches

from operations import limits


@pytest.fixture(autouse=True)
def _no_requests_yet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(limits, "_present", lambda: 1_800_000_001.0)
    caches["limits"].clear()
    yield
    caches["limits"].clear()
