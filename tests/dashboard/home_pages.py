"""The home page as a test reads it."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from sources.models import Policy
from tests.factories import make_worker
from tests.sources.factories import backed_up, make_policy, make_source

NOW = timezone.now()
HOUR = timedelta(hours=1)
FACTS, ACT = "/home/facts/", "/home/act/"


@pytest.fixture(autouse=True)
def _forget() -> None:
    cache.clear()


@pytest.fixture
def policy() -> Policy:
    """Daily, half a day from now: whatever the time is, a backup of an hour ago is up to date."""
    make_worker()
    return make_policy(cron=f"0 {(NOW.hour + 12) % 24} * * *")


def text_of(client: Client, path: str = "/") -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer
    return " ".join(answer.content.decode().split())


def well(policy: Policy, **fields: Any) -> Any:
    return backed_up(policy, NOW - HOUR, source=make_source(**fields))
