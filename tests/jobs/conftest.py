"""Nothing that one test's claims taught the next one's; and a pooler for those that ask for one."""

import pytest

from jobs import throttles
from tests.pooler import pooled_url

__all__ = ["pooled_url"]


@pytest.fixture(autouse=True)
def _no_hints() -> None:
    throttles._named.clear()
