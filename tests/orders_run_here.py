"""Orders at repositories that are carried out in the test's own process.

A process of its own for each takes a fifth of a second. One test of each order starts it; tests of what surrounds an
order have no use for it. As a child does, it sends its messages on the way, and has its giver keep what is to be kept.
"""

import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import pytest

from backups import repository_orders
from engines.at_repositories import work
from engines.restores import restore_process
from external.processes import serving
from external.processes.orders import Order
from external.processes.runner import EndReason, ProgramEnd

Kept = Callable[[Any], object]
current: ContextVar[tuple[Order, Kept | None] | None] = ContextVar("current", default=None)
"""The order that this thread carries out, and what keeps something for it."""


def give(order: Order, *how: Any, kept: Kept | None = None, **more: Any) -> Any:
    facts = json.loads(json.dumps(order.facts, default=serving.plain))
    token = current.set((order, kept))
    try:
        say(serving.done(order.program, order.do, facts))
    finally:
        current.reset(token)
    return order.answer(ProgramEnd(EndReason.EXITED, 0))


def say(line: Mapping[str, Any]) -> None:
    if order := current.get():
        order[0].on_line(json.dumps(line, default=serving.plain))


def keep(facts: dict[str, str]) -> bool:
    if order := current.get():
        return order[1] is not None and bool(order[1](facts))
    return True


@pytest.fixture
def orders_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository_orders, "orders", SimpleNamespace(give=give))
    monkeypatch.setattr(serving, "keep", keep)
    for module in (work, restore_process):
        monkeypatch.setattr(module, "say", say)
