"""Questions about repositories that are answered in the test's own process.

A process of its own for each takes a fifth of a second. `tests/backups` and `tests/engines` start them;
tests of what surrounds a question have no use for it.
"""

import json
from importlib import import_module
from typing import Any

import pytest

from backups import repository_orders
from external.processes import orders
from external.processes.runner import Ended, Ending


def give_order(program: str, order: dict[str, Any], *how: Any) -> tuple[Ended, list[Any]]:
    facts = json.loads(json.dumps(order, default=str))
    do = facts.pop("do")
    answer = getattr(import_module(import_module(program).ORDERS[do]), do)(**facts)
    return Ended(Ending.EXITED, 0), [json.loads(json.dumps(answer, default=orders.plain))]


@pytest.fixture
def orders_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository_orders, "give_order", give_order)
