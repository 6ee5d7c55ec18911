"""A machine with an agent, and a server that plays the contract."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.contract import TOKEN, ContractServer
from tests.agent.processes import Machine


@pytest.fixture
def server() -> Iterator[ContractServer]:
    with ContractServer() as started:
        yield started


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Not enrolled."""
    return Machine(tmp_path, {"TZ": "UTC"})


@pytest.fixture
def enrolled(machine: Machine, server: ContractServer) -> Machine:
    """The machine of an agent that has the first token of `server`."""
    machine.store(url=server.url, token=TOKEN, source="laptop")
    return machine
