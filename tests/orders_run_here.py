"""Questions about repositories that are answered in the test's own process.

A process of its own for each takes a fifth of a second. `tests/backups` and `tests/engines` start them;
tests of what surrounds a question have no use for it.
"""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from backups import repository_orders
from external.processes import serving
from external.processes.orders import Order
from external.processes.runner import EndReason, ProgramEnd


def give(order: Order, *how: Any, **more: Any) -> Any:
    facts = json.loads(json.dumps(order.facts, default=serving.plain))
    done = serving.done(order.program, order.do, facts)
    order.on_line(json.dumps(done, default=serving.plain))
    return order.answer(ProgramEnd(EndReason.EXITED, 0))


@pytest.fixture
def orders_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository_orders, "orders", SimpleNamespace(give=give))
