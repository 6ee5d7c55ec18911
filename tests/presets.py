"""The retry policies that every installation begins with. A test with real transactions takes them away, and a process
of pytest-xdist takes tests in any order."""

from enum import Enum, auto

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker
from pytest_django.plugin import blocking_manager_key

from audit.models import AuditEntry
from tests.emptying import empty_the_database
from tests.factories import install_presets


class Presets(Enum):
    """`MIGRATED`: no test has committed yet; `BACK`: installed once more, for tests that are rolled back."""

    MIGRATED = auto()
    GONE = auto()
    BACK = auto()


state = Presets.MIGRATED


def is_rolled_back(item: pytest.Item) -> bool:
    """True if the test uses the database and commits nothing."""
    return bool(item.get_closest_marker("django_db") or asks(item)) and not commits(item)


def commits(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("django_db")
    return bool(asks(item) - {"db"} or (marker and marker.kwargs.get("transaction")))


def asks(item: pytest.Item) -> set[str]:
    return {"db", "transactional_db", "live_server"}.intersection(getattr(item, "fixturenames", ()))


def empty() -> None:
    global state
    empty_the_database()
    state = Presets.GONE


def bring_back() -> None:
    global state
    install_presets()
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {AuditEntry._meta.db_table}")
    state = Presets.BACK


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Bring them back for a test that is rolled back, and take them away again before one that commits."""
    database: DjangoDbBlocker = item.config.stash[blocking_manager_key]
    if state is Presets.GONE and is_rolled_back(item):
        with database.unblock():
            bring_back()
    elif state is Presets.BACK and commits(item):
        with database.unblock():
            empty()
