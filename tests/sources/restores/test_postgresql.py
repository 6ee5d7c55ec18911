"""Databases of PostgreSQL come back into servers of every version."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sources.restores import postgresql
from sources.storage.places import Report, Wish
from tests.sources.engines.peers import back_up
from tests.sources.engines.postgresql_peer import DEBIAN, PostgresqlServer, postgresql_server
from tests.sources.storage.building import ASSIGNMENT, Built

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def old() -> Iterator[PostgresqlServer]:
    with postgresql_server(DEBIAN) as server:
        yield server


def restored(server: PostgresqlServer, folder: Path, name: str, into: PostgresqlServer | None = None) -> Report:
    """Back up the database `shop` of a server, and restore it as a new one; `into`: another server."""
    built = Built(folder / "built")
    result = back_up(server.source(), built.folder / "repository" / ASSIGNMENT)
    assert result.snapshot, result.error
    wish = Wish(ASSIGNMENT, result.snapshot, Path(name))
    target = (into or server).source()
    return postgresql.create(wish, built.store, target, folder / "cache", lambda step: None)


def test_a_server_that_is_older_than_the_programs_gets_its_database_back(old: PostgresqlServer, tmp_path: Path) -> None:
    old.run("CREATE DATABASE shop")
    old.run("CREATE TABLE orders AS SELECT n FROM generate_series(1, 10) n", "shop")
    report = restored(old, tmp_path, "shop2")
    assert report.failed == []
    assert old.ask("SELECT count(*) FROM orders", "shop2") == [(10,)]
