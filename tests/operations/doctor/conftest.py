"""The doctor knows one kind of record."""

import pytest

from jobs.handlers import Kind, Registry
from operations import checks
from tests.operations.doctor.examining import succeed


@pytest.fixture(autouse=True)
def own_registry(monkeypatch) -> Registry:
    """Knows the kind `test`, whose records are run in the queue default."""
    registry = Registry()
    registry.add(Kind("test", home_queue="default"))
    registry.handler("test", queue="default")(succeed)
    monkeypatch.setattr(checks, "registry", registry)
    return registry
