"""Databases for `test_zoo.py`: each a file of SQL, with what of it does not come back, and must be named.

-- first: STATEMENTS    run in the database postgres
-- named: KIND NAME; …  what a restore names, and nothing else differs (`to 15`, `of 18`: at these versions only)
-- named by a login: KIND NAME; …  besides, where the dump is not trusted
-- foreseen: KIND NAME   what it names beforehand, besides
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
    r"pg_attver=\d+, |"
    r"^(ALTER (FOREIGN )?TABLE ONLY .* SET \(pg_attver=\d+\);|\\(un)?restrict .*|SET .*|-- Dumped .*)\n",
    re.MULTILINE,
)
"""Facts of the moment, which are not part of the schema."""
SPACES = """
SELECT t.spcname, string_agg(c.oid::regclass::text, ', ' ORDER BY c.relname)
  FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace WHERE t.spcname <> 'pg_global' GROUP BY 1
"""
ROWS = r"""
SELECT CASE getdatabaseencoding() WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END AS encoding \gset
SET client_encoding = :'encoding';
SELECT format(CASE c.relkind WHEN 'S' THEN 'SELECT %1$L, last_value, is_called FROM %1$s'
       ELSE 'SELECT %1$L, count(*), md5(string_agg(t::text, chr(1) ORDER BY t::text COLLATE "C")) FROM ONLY %1$s t' END,
       format('%I.%I', n.nspname, c.relname))
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE (c.relkind IN ('r', 'p', 'S') OR (c.relkind = 'm' AND c.relispopulated))
   AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') \gexec
SELECT 'large objects', count(*), md5(string_agg(loid::text || pageno || md5(data), ',' ORDER BY loid, pageno))
  FROM pg_largeobject;
"""
SHOWN = re.compile(r'CONSTRAINT \w+_not_null (?=NOT NULL)|(\b(people|a|first|steps|steps_1)|"商品")\.(?=["\w])')
"""Facts that versions show differently."""


@dataclass
class Animal:
    name: str
    version: int
    """The version of its server: VERSION in its text."""

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
    how = {"text": True, "errors": "surrogateescape"}
    ended = subprocess.run(argv, env=server.reached, input=given, capture_output=True, check=False, **how)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def properties(server: PostgresqlServer, database: str) -> dict[str, str]:
    """The properties of the database itself."""
    found = server.ask(pg_properties.SQL.decode().rpartition("SET ")[2].partition(";")[2], database)[0][0]
    columns = found.pop("columns")
    columns["datlocale"] = columns.get("datlocale") or columns.get("daticulocale")
    kept = ("datcollate", "datctype", "datlocprovider", "datlocale", "datconnlimit", "datistemplate")
    settings = {
        f"setting {value.partition('=')[0]}" + (f" of {each['role']}" if each["role"] else ""): value
        for each in found.pop("settings") or ()
        for value in each["values"]
    }
    found.pop("needs")
    rights = found.pop("rights")
    shown = sorted((each["role"] or "", each["right"], each["may_grant"]) for each in rights or ())
    more = {"rights": str(shown), "locale": str([columns.get(each) for each in kept])}
    return {name: str(value) for name, value in found.items()} | settings | more


def schema(server: PostgresqlServer, database: str) -> dict[str, str]:
    """Kind and name of each object → its SQL."""
    [(encoding,)] = server.ask("SELECT getdatabaseencoding()", database)
    how = () if encoding == "SQL_ASCII" else ("--encoding=UTF8",)
    text = run(server, "pg_dump", "--schema-only", "--restrict-key=same", *how, f"--dbname={database}")
    parts = HEADER.split(SHOWN.sub("", PASSING.sub("", text)))
    found: dict[str, str] = {}
    for name, kind, schema, sql in zip(*(parts[at::4] for at in (1, 2, 3, 4)), strict=True):
        what = f"{kind} {name if schema == '-' else f'{schema}.{name}'}"
        found[what] = found.get(what, "") + re.sub(r"\n--\n-- PostgreSQL database dump complete\n--\n", "", sql).strip()
    return found | {f"TABLESPACE {name}": text for name, text in server.ask(SPACES, database)}


def rows(server: PostgresqlServer, database: str) -> dict[str, str]:
    """Table or materialized view → a digest of its rows; sequence → its values. Names are without quotes."""
    how = ("--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", f"--dbname={database}")
    found = {}
    for line in run(server, "psql", *how, given=ROWS).splitlines():
        name, *values = line.rsplit("|", 2)
        shown = name.encode(errors="surrogateescape").decode(errors="replace")
        found[shown.replace('"', "")] = str(values)
    return found
