"""Kinds of record."""

import pytest

from jobs.handlers import Kind, registry


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> str:
    """A kind whose records start in a queue of their own."""
    monkeypatch.setitem(registry.kinds, "test", Kind("test", home_queue="home"))
    return "test"
