"""Objects that a role may not read or that pg_dump leaves out: named, with the cure, in a backup and in *test
connection*."""

import dataclasses
import re
import subprocess
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest

from backupsched.embedded import Server
from engines.at_repositories import questions
from engines.base import RunEnded, SourceSpec, Verdict
from external.processes.programs import find_postgresql_program
from tests.conftest import FAST
from tests.engines.peers import back_up, specification
from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow

SETUP = """
CREATE SCHEMA closed;
CREATE TABLE closed.inside AS SELECT 1 AS n;
CREATE TABLE orders AS SELECT n FROM generate_series(1, 10) n;
CREATE TABLE "Odd ""na.me" (n int);
CREATE TABLE tenants (n serial, owner text);
INSERT INTO tenants (owner) VALUES ('a'), ('b');
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON tenants USING (owner = current_user);
CREATE VIEW known AS SELECT n FROM orders;
CREATE EXTENSION postgres_fdw;
CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '1');
CREATE USER MAPPING FOR postgres SERVER far OPTIONS (password 'hidden');
CREATE FOREIGN TABLE elsewhere (n int) SERVER far;
CREATE SUBSCRIPTION news CONNECTION 'host=127.0.0.1 port=1' PUBLICATION p WITH (connect = false);
GRANT SELECT ON orders, tenants TO ROLE_OF_THE_TEST;
"""
numbers = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("server"), settings=FAST)
    found.ensure_running()
    with found.connect("postgres") as connection:
        connection.execute("CREATE ROLE postgres")
    yield found
    found.destroy()


@pytest.fixture
def source(server: Server) -> SourceSpec:
    """A database of the test, and a role of the same name that may read a part of it."""
    name = f"backup_{next(numbers)}"
    with server.connect("postgres") as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'pa55'")
        connection.execute(f"CREATE DATABASE {name}")
    with server.connect(name) as connection:
        connection.execute(SETUP.replace("ROLE_OF_THE_TEST", name))
    where = str(server.layout.socket_directory)
    return specification("postgresql", where, path=name, secret="pa55", options={"user": name})


def as_superuser(source: SourceSpec, *statements: str | bytes) -> None:
    password = (Path(source.address).parent / "password").read_text().strip()
    with psycopg.connect(
        host=source.address, user="backupsched", password=password, dbname=source.path, autocommit=True
    ) as connection:
        for each in statements:
            connection.execute(each)


def test_what_may_not_be_read_is_left_out_by_name_and_its_cure_cures(source: SourceSpec, tmp_path: Path) -> None:
    result = back_up(source, tmp_path / "first")
    assert result.verdict is Verdict.WARNINGS, result.error
    said = "\n".join(result.warnings)
    for part in ('public."Odd ""na.me"', "closed.inside", "public.tenants", "public.tenants_n_seq", "public.elsewhere",
                 "postgres at far", "subscriptions not dumped"):  # fmt: skip
        assert part in said, said
    file = tmp_path / "first/files" / result.snapshot / "database.dump"
    sql = subprocess.run([find_postgresql_program("pg_restore"), "--file=-", file], capture_output=True, check=True)
    assert b"CREATE TABLE public.tenants" in sql.stdout
    assert b"COPY public.orders" in sql.stdout
    assert b"COPY public.tenants" not in sql.stdout
    with pytest.raises(RunEnded) as asked:
        questions.look(source, PATIENCE, threading.Event())
    cures = re.findall(r"(?:GRANT SELECT|GRANT USAGE|ALTER ROLE).*?(?=;|$)", str(asked.value))
    assert len(cures) == 4, str(asked.value)
    as_superuser(source, *cures)
    assert "rows of foreign tables are not kept" in questions.look(source, PATIENCE, threading.Event())
    cured = back_up(source, tmp_path / "second")
    assert [each for each in cured.warnings if "may not read the" in each or "hides" in each] == []


def test_a_dump_in_which_nothing_would_be_is_a_failure_with_its_cure(source: SourceSpec, tmp_path: Path) -> None:
    role = source.path
    as_superuser(source, f"REVOKE SELECT ON orders, tenants FROM {role}")
    found = back_up(source, tmp_path / "first")
    assert (found.verdict, f"GRANT pg_read_all_data TO {role}" in found.error) == (Verdict.SOURCE_FAILED, True), found
    as_superuser(source, f"GRANT pg_read_all_data TO {role}", f"ALTER ROLE {role} BYPASSRLS", "SELECT lo_create(77)")
    objects = back_up(source, tmp_path / "first")
    if objects.verdict is Verdict.SOURCE_FAILED:  # from some version on pg_read_all_data is enough for these
        cure = re.search(f"GRANT SELECT ON LARGE OBJECT 77 TO {role}", objects.error)
        assert cure, objects
        as_superuser(source, cure[0])
    whole = back_up(dataclasses.replace(source), tmp_path / "second")
    assert (whole.verdict, "may not read the" in "".join(whole.warnings)) == (Verdict.WARNINGS, False), whole


def test_names_of_a_database_in_another_encoding_are_shown_and_left_out_as_they_are(
    source: SourceSpec, tmp_path: Path
) -> None:
    for encoding, shown in (("LATIN1", "café"), ("SQL_ASCII", "caf\ufffd"), ("EUC_JP", "\u9591\u7b20")):
        made = f"CREATE DATABASE {encoding} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        as_superuser(source, made)
        other = dataclasses.replace(source, path=encoding.lower())
        name = shown.encode("euc_jp") if encoding == "EUC_JP" else "café".encode("latin-1")
        statements = (
            b'CREATE TABLE "%s" (n int)',
            b"CREATE TABLE \"t%s\" AS SELECT '%s' AS n",
            b'GRANT SELECT ON "t%s" TO ' + source.path.encode(),
        )
        each_of = [each.replace(b"%s", name) for each in statements]
        as_superuser(other, f"SET client_encoding = '{encoding}'", *each_of)
        result = back_up(other, tmp_path / encoding)
        [warning] = [each for each in result.warnings if "may not read the tables" in each]
        assert f'may not read the tables public."{shown}": ' in warning
        assert (result.verdict, result.tables, result.rows) == (Verdict.WARNINGS, 1, 1)
        assert (tmp_path / encoding / "files" / result.snapshot / "database.json").is_file()
