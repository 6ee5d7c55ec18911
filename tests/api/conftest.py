"""A program with every right."""

import pytest

from tests.api.asking import Program


@pytest.fixture
def program() -> Program:
    return Program()
