"""Databases that restores read and fill."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection

from engines.base import SourceSpec
from tests.engines import peers
from tests.engines.postgresql_peer import PostgresqlServer


@contextmanager
def alone_with_roles() -> Iterator[None]:
    """No other process of this run restores into the tests' server until then. Roles belong to the server: a dump has
    those of a test next to it, and its restore makes them again, or finds them gone."""
    with (Path(os.environ["BACKUPSCHED_TEST_VAR"]) / "roles.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def database_of_the_tests() -> SourceSpec:
    connection.ensure_connection()
    settings = connection.settings_dict
    return peers.specification(
        "postgresql", settings["HOST"] or "localhost", port=int(settings["PORT"] or 5432), path=settings["NAME"],
        options={"user": settings["USER"]} if settings["USER"] else {},
        secret=connection.connection.info.password or None if connection.connection else None,
    )  # fmt: skip


def shop(server: PostgresqlServer, text: str) -> None:
    server.run("DROP DATABASE IF EXISTS shop;; CREATE DATABASE shop")
    server.run(text, "shop")


def databases(server: PostgresqlServer) -> set[str]:
    return {name for (name,) in server.ask("SELECT datname FROM pg_database")}
