from collections.abc import Iterator

import pytest

from jobs import throttles


@pytest.fixture(autouse=True)
def _no_rates_known() -> Iterator[None]:
    """What one test's claims learnt of rates is no business of the next."""
    throttles._rated.clear()
    yield
    throttles._rated.clear()
