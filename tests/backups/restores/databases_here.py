"""Databases that restores read and fill."""

from django.db import connection

from engines.base import SourceSpec
from tests.engines import peers
from tests.engines.postgresql_peer import PostgresqlServer


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
