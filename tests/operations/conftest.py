"""A person who may operate."""

import pytest
from django.test import Client

from tests.operations import questions


@pytest.fixture
def operator() -> Client:
    return questions.operator()
