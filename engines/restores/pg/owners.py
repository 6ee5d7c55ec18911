"""Hands over the objects that a login has loaded, after that login was closed: objects to their owners, and the few
statements that the login was not allowed to run.

Nothing of a dump runs here. A statement goes to the server alone (the extended protocol accepts only one), and only if
it changes an owner, a comment, default privileges or a publication. A role that has rights over the server gets no
object: functions of a table's indexes run with the rights of its owner, for example by autovacuum.
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from engines.restores.pg import scripts
from engines.restores.pg.contents import IDENTIFIER
from engines.restores.pg.failures import StatementFailure
from engines.restores.pg.loader import Loader
from engines.restores.pg.outside import Outside
from engines.restores.pg.roles import name_of

KINDS = (
    "COLLATION|CONVERSION|DOMAIN|FOREIGN TABLE|MATERIALIZED VIEW|PUBLICATION|SCHEMA|SEQUENCE|SERVER|STATISTICS|TABLE|"
    "TEXT SEARCH CONFIGURATION|TEXT SEARCH DICTIONARY|TYPE|VIEW"
)
"""Kinds that are named by a name alone. Anything else in such a statement does more: `ALTER TABLE … USING f(x), OWNER
TO …` would run `f` with the rights of the account that restores.
"""
CALLED = "AGGREGATE|FUNCTION|LARGE OBJECT|OPERATOR|OPERATOR CLASS|OPERATOR FAMILY|PROCEDURE"
"""Kinds that are named with arguments, and changed in one respect by a statement."""
OWNER = re.compile(
    rf"ALTER (?:(?:{KINDS}) {IDENTIFIER}(?:\.{IDENTIFIER})?|(?:{CALLED}) (?:[^;\"\n]|\"(?:[^\"\n]|\"\")*+\")+?)"
    rf" OWNER TO ({IDENTIFIER});\n"
)
EXTENSION = re.compile(rf"CREATE EXTENSION IF NOT EXISTS ({IDENTIFIER}) WITH SCHEMA ({IDENTIFIER});\n")
SPACE = re.compile(rf"SET default_tablespace = ({IDENTIFIER});\n")
SAID_AGAIN = re.compile(
    r"(?:ALTER DEFAULT PRIVILEGES FOR ROLE |COMMENT ON (?:EXTENSION|SCHEMA) |(?:CREATE|ALTER) PUBLICATION |"
    r"(?:GRANT|REVOKE) [A-Z, ]+ ON SCHEMA public (?:TO|FROM) )"
)
NO_RIGHT = "42501"
GONE = frozenset({"42704", "42883", "42P01", "3F000"})
"""SQLSTATEs of an object that was not made, which is named already."""
PRIVILEGED = """
SELECT r.rolname FROM pg_roles r WHERE EXISTS (
  SELECT FROM pg_roles p
   WHERE (p.rolsuper OR p.rolcreaterole OR p.rolreplication OR p.rolbypassrls
          OR (p.rolname ^@ 'pg_' AND p.rolname <> 'pg_database_owner'))
     AND pg_has_role(r.oid, p.oid, 'MEMBER'))
"""
KEPT = (
    "owners: {number} objects belong to {role}, which cannot log in, since objects of {owners} run with rights "
    "over the server. If you trust the dump, `REASSIGN OWNED BY {role} TO {first}` in that database changes "
    "that"
)


@dataclass
class HandedOver:
    """The result of handing objects over. `failures`: the refused ones; `kept`: owner → the number of objects that were
    not given to it.
    """

    failures: list[StatementFailure] = field(default_factory=list)
    kept: Counter[str] = field(default_factory=Counter)

    def notes(self, role: str) -> list[str]:
        """A sentence about the objects that were kept, which belong to `role`."""
        owners = sorted(self.kept)
        named = " and ".join(owners[:3]) + (", …" if len(owners) > 3 else "")
        text = KEPT.format(number=f"{self.kept.total():,}", role=role, owners=named, first="".join(owners[:1]))
        return [text] if owners else []


def make_ahead(inside: Any, role: str, script: IO[bytes]) -> set[str]:
    """Make the extensions of a dump in a database that is still empty: later, objects that the dump has put there would
    run in the extensions' scripts. `role` may use the tablespaces of its tables. Returns the names of schemas that were
    made for extensions, which belong to that role.
    """
    from psycopg import Error, sql

    schemas, spaces = set[str](), set[str]()
    for _, line in _statements(script):
        if space := SPACE.fullmatch(line):
            spaces.add(name_of(space[1]))
        if found := EXTENSION.fullmatch(line):
            extension, schema = map(name_of, found.groups())
            make = [sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(sql.Identifier(schema), sql.Identifier(role))]
            is_there = inside.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone()
            names = sql.Identifier(extension), sql.Identifier(schema)
            extend = sql.SQL("CREATE EXTENSION IF NOT EXISTS {} WITH SCHEMA {}").format(*names)
            try:
                with inside.transaction():
                    for each in [*([] if is_there else make), extend]:
                        inside.execute(each)
            except Error as error:
                if error.sqlstate is None:
                    raise
                continue  # it fails again at the statement that names it
            schemas |= set() if is_there else {schema}
    for space_name in spaces:
        used = sql.Identifier(space_name), sql.Identifier(role)
        with suppress(Error):  # it does not exist, or the account may not: the table goes into the usual one
            inside.execute(sql.SQL("GRANT CREATE ON TABLESPACE {} TO {}").format(*used))
    return schemas


def hand_over(inside: Any, loader: Loader, dump: int, encoding: str) -> HandedOver:
    """Give each object to its owner. Raises: psycopg.Error if the server goes away; the exceptions of the loader."""
    found = HandedOver()
    privileged = {name for (name,) in inside.execute(PRIVILEGED)}
    inside.execute(b"SET client_encoding = '" + encoding.encode() + b"'")
    for section in ("pre-data", "post-data"):
        with loader.file() as script:
            scripts.write(loader, dump, section, script)
            for what, line, owner in _owners(script):
                if owner in privileged:
                    found.kept[owner] += 1
                elif (state := run_alone(inside, line)) and state not in GONE:
                    text = line.decode(errors="replace").rstrip()
                    found.failures.append(
                        StatementFailure(what, statement=text, text="the owner was not changed", state=state)
                    )
    inside.execute("SET client_encoding = 'UTF8'")
    return found


def say_again(inside: Any, failures: list[StatementFailure], encoding: str) -> list[StatementFailure]:
    """Run the statements to which the login had no right. Returns those that still fail. `encoding`: of the dump."""
    inside.execute(b"SET client_encoding = '" + encoding.encode() + b"'")
    done = [_may_be_said(each) and not run_alone(inside, _bytes_of(each.statement)) for each in failures]
    inside.execute("SET client_encoding = 'UTF8'")
    return [each for each, is_done in zip(failures, done, strict=True) if not is_done]


def _bytes_of(statement: str) -> bytes:
    return statement.encode(errors="surrogateescape")


def _may_be_said(failure: StatementFailure) -> bool:
    return failure.state == NO_RIGHT and SAID_AGAIN.match(failure.statement) is not None


def run_alone(inside: Any, statement: bytes) -> str:
    """Run one statement; several are refused as a whole. Returns its SQLSTATE; empty if it succeeded."""
    import psycopg

    try:
        inside.execute(statement.strip(), binary=True)  # binary selects the extended protocol
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise
        return error.sqlstate
    return ""


def _owners(script: IO[bytes]) -> Iterator[tuple[str, bytes, str]]:
    """The object, the statement and the role of each change of an owner."""
    script.seek(0)
    what = ""
    for written, line in _statements(script):
        if found := scripts.object_of(written):
            what = found
        elif owner := OWNER.fullmatch(line):
            yield what, written, name_of(owner[1])


def _statements(script: IO[bytes]) -> Iterator[tuple[bytes, str]]:
    """The lines that are not part of a body or text, as bytes and as text."""
    outside = Outside()
    for line in script:
        text = line.decode(errors="replace")
        if outside.begins(text):
            yield line, text
