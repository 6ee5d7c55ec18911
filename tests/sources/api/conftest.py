"""No request of one test counts against the limits of another."""

from collections.abc import Iterator

import pytest
from django.core.cache import caches


@pytest.fixture(autouse=True)
def _no_requests_yet() -> Iterator[None]:
    caches["limits"].clear()
    yield
    caches["limits"].clear()
