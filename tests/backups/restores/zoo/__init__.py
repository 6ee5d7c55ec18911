"""Databases for `test_zoo.py`: each a file of SQL, with what of it does not come back, and must be named.

-- first: STATEMENTS    run in the database postgres
-- named: KIND NAME; …  what a restore names, and nothing else differs
-- named by a login: KIND NAME; …  besides, where the dump is not trusted
-- foreseen: KIND NAME   what it names beforehand, besides
-- rows: TABLE          whose rows are not there
-- versions: 18         which can make it
"""

import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psycopg

from engines.postgresql import properties as pg_properties
from external.processes.programs import find_postgresql_program
from tests.engines.postgresql_peer import PostgresqlServer

FOLDER = Path(__file__).parent
HEADER = re.compile(r"^--\n-- (?:Data for )?Name: (.*); Type: (.*); Schema: (.*); Owner: .*\n--\n", re.MULTILINE)
PASSING = re.compile(
    r"^(ALTER (FOREIGN )?TABLE ONLY .* SET \(pg_attver=\d+\);|\\(un)?restrict .*|SET .*|-- Dumped .*)\n", re.MULTILINE
)
"""Of the moment, and no part of the schema."""
SPACES = """
SELECT t.spcname, string_agg(c.oid::regclass::text, ', ' ORDER BY c.relname)
  FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace WHERE t.spcname <> 'pg_global' GROUP BY 1
"""
SHOWN = re.compile(r"CONSTRAINT \w+_not_null (?=NOT NULL)|\bpeople\.(?=\w)")
"""What versions show otherwise."""


@dataclass
class Animal:
    name: str
    version: int
    """Of the server that it is made at: VERSION in its text."""

    @cached_property
    def text(self) -> str:
        return (FOLDER / f"{self.name}.sql").read_text().replace("VERSION", str(self.version))

    def said(self, word: str) -> list[str]:
        found = re.search(rf"^-- {word}: (.*)$", self.text, re.MULTILINE)
        return [each.strip() for each in found[1].split(";")] if found else []

    def named(self, to: int) -> set[str]:
        return {*self.said("named"), *self.said(f"named to {to}"), *self.said(f"named to {to} of {self.version}")}

    def make(self, server: PostgresqlServer) -> str:
        """Returns the name of its database."""
        database = f"zoo_{self.name}"
        for each in self.said("first"):
            with suppress(psycopg.errors.DuplicateObject):  # a restore has made it
                server.run(each)
        for each in self.said("database") or [f"CREATE DATABASE {database}"]:
            server.run(each)
        psql(server, database, self.text)
        return database


ANIMALS = sorted(each.stem for each in FOLDER.glob("*.sql"))


def psql(server: PostgresqlServer, database: str, text: str) -> str:
    return run(server, "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--dbname={database}", given=text)


def run(server: PostgresqlServer, program: str, *arguments: str, given: str = "") -> str:
    argv = [find_postgresql_program(program), *arguments]
    ended = subprocess.run(argv, env=server.reached, input=given, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def properties(server: PostgresqlServer, database: str) -> dict[str, str]:
    """What belongs to the database itself."""
    found = server.ask(pg_properties.SQL.decode().rpartition("SET ")[2].partition(";")[2], database)[0][0]
    columns = found.pop("columns")
    columns["datlocale"] = columns.get("datlocale") or columns.get("daticulocale")
    kept = ("datcollate", "datctype", "datlocprovider", "datlocale", "datconnlimit", "datistemplate")
    settings = [
        (each["role"], value)
        for each in found.pop("settings") or ()
        for value in each["values"]
        if not value.startswith("log_")
    ]
    found.pop("needs")
    rights = found.pop("rights")
    shown = sorted((each["role"] or "", each["right"], each["may_grant"]) for each in rights or ())
    return {name: str(value) for name, value in found.items()} | {
        "settings": str(settings), "rights": str(shown), "locale": str([columns.get(each) for each in kept]),
    }  # fmt: skip


def schema(server: PostgresqlServer, database: str) -> dict[str, str]:
    """Kind and name of each object → its SQL."""
    text = run(server, "pg_dump", "--schema-only", "--restrict-key=same", f"--dbname={database}")
    parts = HEADER.split(SHOWN.sub("", PASSING.sub("", text)))
    found: dict[str, str] = {}
    for name, kind, schema, sql in zip(*(parts[at::4] for at in (1, 2, 3, 4)), strict=True):
        what = f"{kind} {name if schema == '-' else f'{schema}.{name}'}"
        found[what] = found.get(what, "") + re.sub(r"\n--\n-- PostgreSQL database dump complete\n--\n", "", sql).strip()
    return found | {f"TABLESPACE {name}": text for name, text in server.ask(SPACES, database)}


def rows(server: PostgresqlServer, database: str) -> dict[str, str]:
    """Table → a digest of its rows."""
    tables = server.ask(
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
        " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')",
        database,
    )
    large = "SELECT md5(string_agg(loid::text || pageno || md5(data), ',' ORDER BY loid, pageno)) FROM pg_largeobject"
    [(objects,)] = server.ask(large, database)
    digest = "SELECT count(*) || coalesce(md5(string_agg(t::text, chr(1) ORDER BY t::text)), '') FROM ONLY {} t"
    return {"large objects": objects} | {name: server.ask(digest.format(name), database)[0][0] for (name,) in tables}
