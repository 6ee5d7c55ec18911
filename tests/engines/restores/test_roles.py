"""Roles are made of the parts of `globals.sql`, never by what a line of it says besides."""

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection

from engines.restores.pg import roles

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server() -> Iterator[Any]:
    connection.ensure_connection()
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as found:
        yield found


def test_a_role_comes_back_without_rights_over_others_and_nothing_else_is_run(server: Any) -> None:
    one, two = (f'r "{name}" {os.urandom(4).hex()}' for name in ("one", "two"))
    first, second = (roles_name(each) for each in (one, two))
    rights = "SUPERUSER INHERIT NOCREATEROLE CREATEDB LOGIN NOREPLICATION BYPASSRLS CONNECTION LIMIT 3"
    options = "ADMIN OPTION, INHERIT TRUE" if server.info.server_version >= 160000 else "ADMIN OPTION"
    lines = f"""
CREATE ROLE {first};
ALTER ROLE {first} WITH {rights} PASSWORD 'SCRAM-SHA-256$4096:AA$B:C' VALID UNTIL '2040-01-01 00:00:00+00';
CREATE ROLE {second};
ALTER ROLE {second} WITH NOSUPERUSER LOGIN; ALTER ROLE {first} SUPERUSER;
ALTER ROLE {second} WITH NOLOGIN PASSWORD 'x'; ALTER ROLE {first} SUPERUSER; --';
ALTER ROLE {first} SET search_path TO 'a', 'it''s';
ALTER ROLE {first} SET work_mem TO '4MB'; ALTER ROLE {first} SUPERUSER;
GRANT {first} TO {second} WITH {options} GRANTED BY postgres;
GRANT pg_execute_server_program TO {second};
GRANT {first} TO {second}; ALTER ROLE {first} SUPERUSER;
COMMENT ON ROLE {first} IS 'line''; ALTER ROLE {first} SUPERUSER; --';
DROP ROLE {second};
ALTER ROLE {first} SET app.words TO E'\\'' $$
CREATE ROLE mallory;
ALTER ROLE mallory WITH LOGIN PASSWORD ''m'';
GRANT {first} TO mallory;
COMMENT ON ROLE mallory IS ''';
COMMENT ON ROLE {second} IS '
CREATE ROLE mallory;
';
"""
    try:
        made = roles.make_missing(server, lines.splitlines())
        assert made.names == [one, two]
        found = server.execute(
            "SELECT rolsuper, rolbypassrls, rolcreatedb, rolcanlogin, rolconnlimit, rolconfig,"
            " pg_has_role(%s, oid, 'USAGE') FROM pg_roles WHERE rolname = %s",
            (two, one),
        ).fetchone()
        assert found == (False, False, True, True, 3, ['search_path=a, "it\'s"'], True)
        kept = server.execute("SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = %s", (one,))
        assert kept.fetchone()[0].startswith("line'; ALTER")
        programs = "SELECT pg_has_role(%s, 'pg_execute_server_program', 'USAGE')"
        assert server.execute(programs, (two,)).fetchone() == (False,)
        assert sum("was left out: `ALTER ROLE" in each for each in made.left) == 2
        assert sum("pg_dumpall writes no such line" in each for each in made.left) == 5
        assert sum("not a member of pg_execute_server_program yet" in each for each in made.left) == 1
        assert roles.make_missing(server, lines.splitlines()).names == []
    finally:
        for each in (second, first):
            server.execute(f"DROP ROLE IF EXISTS {each}")


def roles_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
