"""The catalogue of a PostgreSQL database, asked before its dump: objects that the role of the source may not read, and
rows that pg_dump silently leaves out.

pg_dump fails as a whole for one table without SELECT. So unreadable objects are left out of the dump by name, and each
is a warning of the point, with the statement that gives the right. *Test connection* asks the same and fails for them.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from external.processes.runner import ProgramEnd

SQL = (Path(__file__).with_name("sql") / "catalogue.sql").read_bytes()
PSQL = ("--no-psqlrc", "--no-password", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1")
MOST_ROWS = 1_000
SHOWN = 5
MOST_LEFT_OUT = 200
"""The most objects that are left out: each is an argument of pg_dump."""
UNREADABLE, HIDDEN, SEQUENCE, LARGE_OBJECT = "unreadable", "hidden", "sequence", "large_object"
LEFT_OUT_BY = {UNREADABLE: "--exclude-table", HIDDEN: "--exclude-table-data", SEQUENCE: "--exclude-table-data"}
LACKS = {
    UNREADABLE: "the role {role} may not read the tables {names}: {cure}",
    HIDDEN: "row-level security hides rows of {names} from the role {role}: ALTER ROLE {role} BYPASSRLS",
    SEQUENCE: "the role {role} may not read the last values of the sequences {names}: {cure}",
    LARGE_OBJECT: "the role {role} may not read the large objects {names}: {cure}",
}
GRANTS = {UNREADABLE: "TABLE", SEQUENCE: "SEQUENCE", LARGE_OBJECT: "LARGE OBJECT"}
WITHOUT = {
    "foreign": "rows of foreign tables are not kept, since they are on another server: {names}",
    "unlogged": "rows of unlogged tables are not kept, which the primary server alone has: {names}",
    "mapping": "options of user mappings (passwords) are not kept where the role {role} may not see them: {names}",
}
SPEAKS = (
    "the messages of its server are in another language ({language}), so a conflict with recovery counts as a failure "
    "at once, and a damaged table costs the others: let a superuser run ALTER ROLE {role} SET lc_messages = 'C'"
)
UNKNOWN = "the omissions of the dump are not known, since the catalogue could not be read: {}"


class Endless(Exception):
    """A server sends more rows than were asked for."""


@dataclass
class PostgresqlCatalogue:
    """The rows that the query has found, by `what` they are."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    number: int = 0

    def take(self, line: str) -> None:
        """Take a line of psql's output. Raises: Endless."""
        self.number += 1
        if self.number > MOST_ROWS:
            raise Endless
        with suppress(ValueError, KeyError, TypeError):  # a warning of the server
            row = json.loads(line)
            self.rows[str(row["what"])].append(row)

    @property
    def lacking(self) -> list[str]:
        """The rights that the dump needs and the role lacks, in sentences with their cure."""
        return [self._sentence(what, text) for what, text in LACKS.items() if self.rows.get(what)]

    @property
    def not_kept(self) -> list[str]:
        """Rows that no right would bring into the dump, in sentences."""
        return [self._sentence(what, text) for what, text in WITHOUT.items() if self.rows.get(what)]

    @property
    def hides_passwords(self) -> bool:
        """True if the role may not read the passwords of the server's roles."""
        return bool(self.rows.get("passwords"))

    @property
    def in_english(self) -> dict[str, str]:
        """The environment with which a program gets messages in English, if the role may ask for them; else empty."""
        asks = any(row.get("may_set") for row in self.rows.get("language", ()))
        return {"PGOPTIONS": "-c lc_messages=C"} if asks else {}

    @property
    def speaks(self) -> list[str]:
        """A sentence, with its cure, if the server's messages are in another language; else empty."""
        foreign = "".join(str(row["shown"]) for row in self.rows.get("language", ()) if not row.get("may_set"))
        role = "".join(str(row["shown"]) for row in self.rows.get("role", ()))
        return [SPEAKS.format(language=foreign, role=role)] if foreign else []

    @property
    def left_out(self) -> tuple[str, ...]:
        """The arguments with which pg_dump leaves out the objects that it could not read."""
        return tuple(
            f"{option}={_bytes_of(row['name'])}"
            for what, option in LEFT_OUT_BY.items()
            for row in self.rows.get(what, ())
        )

    @property
    def is_hopeless(self) -> bool:
        """True if a dump without the unreadable objects would be worthless: nothing would be in it, or large objects
        cannot be read, of which pg_dump leaves out all or none.
        """
        readable = sum(row["number"] for row in self.rows.get("readable", ()))
        nothing = bool(self.rows.get(UNREADABLE)) and readable == 0
        return nothing or bool(self.rows.get(LARGE_OBJECT)) or len(self.left_out) > MOST_LEFT_OUT

    def _sentence(self, what: str, text: str) -> str:
        rows = self.rows[what]
        role = "".join(str(row["shown"]) for row in self.rows["role"])
        names = _listed([str(row["shown"]) for row in rows])
        schemas = sorted({str(row["schema"]) for row in rows if row.get("schema")})
        cures = [f"GRANT USAGE ON SCHEMA {', '.join(schemas[:SHOWN])} TO {role}"] if schemas else []
        cures += [f"GRANT SELECT ON {GRANTS[what]} {names} TO {role}"] if what in GRANTS else []
        if what in (UNREADABLE, SEQUENCE):
            cures += [f"or, from PostgreSQL 14 on, GRANT pg_read_all_data TO {role}"]
        return text.format(role=role, names=names, cure="; ".join(cures))


def _bytes_of(digits: str) -> str:
    """The name as an argument: pg_dump reads it in the database's encoding, which need not be UTF-8."""
    return os.fsdecode(bytes.fromhex(digits))


def _listed(names: Collection[str]) -> str:
    return ", ".join(list(names)[:SHOWN]) + (f", … ({len(names)} in all)" if len(names) > SHOWN else "")


def asked(ask: Callable[[Callable[[str], None]], ProgramEnd]) -> tuple[PostgresqlCatalogue, ProgramEnd | None]:
    """The catalogue as psql returns it. `ask`: runs psql with `SQL`, and passes each line to its argument. Also returns
    how psql ended; None if it was ended because the server sends without end.
    """
    found = PostgresqlCatalogue()
    try:
        ended = ask(found.take)
    except Endless:
        return PostgresqlCatalogue(), None
    return (found if ended.exit_code == 0 else PostgresqlCatalogue()), ended
