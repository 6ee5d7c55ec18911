"""The demo's PostgreSQL database: a small shop, generated, on the server of the demo; and whether a dump equals it."""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from django.db import connection
from psycopg import sql

NAME = "demo_shop"
SCRATCH = "demo_shop_restored"
ADMINISTRATION = "postgres"

TABLES = """
CREATE TABLE customer (
    id bigint PRIMARY KEY, name text NOT NULL, born date, tags text[], profile jsonb, photo bytea
);
CREATE TABLE "order" (
    id bigint PRIMARY KEY, customer_id bigint NOT NULL REFERENCES customer, total numeric(12, 2) NOT NULL,
    placed_at timestamptz NOT NULL, note text
);
INSERT INTO customer
SELECT n, 'Customer Ünal ' || n, date '1950-01-01' + (n * 37 % 20000), ARRAY['tag' || n % 7, 'ümlaut'],
       jsonb_build_object('n', n, 'vip', n % 9 = 0), decode(md5(n::text), 'hex')
  FROM generate_series(1, 4000) AS n;
INSERT INTO "order"
SELECT n, 1 + n * 7919 % 4000, (n * 31 % 100000) / 100.0, timestamptz '2026-01-01 00:00+00' + n * interval '7 minutes',
       CASE WHEN n % 3 = 0 THEN repeat('note ' || n || ' ', 5) END
  FROM generate_series(1, 20000) AS n;
"""


@dataclass(frozen=True)
class Place:
    """The address and login of the demo's server."""

    host: str
    port: int
    user: str
    password: str | None = field(repr=False)

    def connect(self, database: str) -> psycopg.Connection[Any]:
        """A connection in autocommit mode. Raises: psycopg.Error."""
        return psycopg.connect(
            host=self.host, port=self.port, user=self.user, password=self.password, dbname=database, autocommit=True
        )


def place() -> Place:
    """The server of the demo's database, from Django's connection."""
    params = connection.get_connection_params()
    return Place(
        host=str(params.get("host") or "/var/run/postgresql"),
        port=int(params.get("port") or 5432),
        user=str(params.get("user") or ""),
        password=params.get("password"),
    )


def create(where: Place) -> None:
    """Create the shop. Raises: psycopg.Error."""
    with where.connect(ADMINISTRATION) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(NAME)))
    with where.connect(NAME) as shop:
        shop.execute(TABLES)


def contents(where: Place, database: str) -> dict[str, tuple[int, str]]:
    """Table → (number of rows, digest of all rows), for every ordinary table."""
    with where.connect(database) as connected:
        tables = connected.execute(
            "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables "
            "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        found = {}
        for (table,) in tables:
            row = connected.execute(
                sql.SQL(
                    "SELECT count(*), COALESCE(md5(string_agg(md5(t::text), '' ORDER BY md5(t::text))), '') FROM {} t"
                ).format(sql.SQL(table))
            ).fetchone()
            if row:
                found[table] = (int(row[0]), str(row[1]))
        return found


def differences(dump: Path, where: Place, pg_restore: Path) -> list[str]:
    """The differences between the shop and a restore of `dump` into a scratch database, which is dropped again."""
    with where.connect(ADMINISTRATION) as server:
        server.execute(f"CREATE DATABASE {SCRATCH} TEMPLATE template0")
    try:
        restored = subprocess.run(
            [
                str(pg_restore), "--exit-on-error", "--no-owner", "--host", where.host, "--port", str(where.port),
                "--username", where.user, "--dbname", SCRATCH, str(dump),
            ],
            env={**os.environ, "PGPASSWORD": where.password or ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        if restored.returncode != 0:
            return [f"the dump cannot be restored: {restored.stderr.strip()[:500]}"]
        originals, copies = contents(where, NAME), contents(where, SCRATCH)
        return [
            f"table {table}: {originals.get(table)} became {copies.get(table)} (rows, digest)"
            for table in sorted(originals.keys() | copies.keys())
            if originals.get(table) != copies.get(table)
        ]
    finally:
        with where.connect(ADMINISTRATION) as server:
            server.execute(f"DROP DATABASE {SCRATCH} WITH (FORCE)")
