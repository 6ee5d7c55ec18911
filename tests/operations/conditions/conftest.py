"""The doctor knows one kind of record."""

import pytest

from jobs.handlers import Kind, Registry
from operations import checks
from operations.backlog import summary
from tests.operations.conditions.examining import succeed


@pytest.fixture(autouse=True)
def own_registry(monkeypatch) -> Registry:
    """Knows the kind `test`, whose records are run in the queue default."""
    registry = Registry()
    registry.add(Kind("test", home_queue="default"))
    registry.handler("test", queue="default")(succeed)
    for module in (checks, summary):
        monkeypatch.setattr(module, "registry", registry)
    return registry
