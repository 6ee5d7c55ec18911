"""The order of tests of pytest-xdist: each process begins with its share of the longest ones. One that began last would
run alone."""

import os
from typing import Any

import pytest

LONGEST = ("promise", "long")
"""The marks of tests that take long. Those of promises are the longest of `make test`."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = dealt(items, [each for each in items if any(map(each.get_closest_marker, LONGEST))], processes())


def processes() -> int:
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


def dealt(tests: list[Any], longest: list[Any], processes: int) -> list[Any]:
    """The tests in equal shares, as `--dist worksteal` hands them out, each with as many of the longest at first."""
    chosen = set(map(id, longest))
    others = [each for each in tests if id(each) not in chosen]
    found: list[Any] = []
    for number in range(processes):
        own = longest[number::processes]
        share = (len(tests) - len(found)) // (processes - number)
        found += own + others[: max(0, share - len(own))]
        del others[: max(0, share - len(own))]
    return found
