"""Roles of a server, made again as `globals.sql` of a point says.

That file comes from a repository, and anyone who can write there would otherwise command the server. So none of its
lines is run: each is parsed in the form that pg_dumpall writes, and a separate statement is built from its parts; any
other line is left out. A role that exists stays as it is. No role gets a right over others' data from a file unless a
user has allowed it for this restore: otherwise SUPERUSER, CREATEROLE, REPLICATION and BYPASSRLS are only reported;
memberships in roles that were there before are always only reported, for an operator to grant.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from engines.restores.pg.contents import IDENTIFIER
from engines.restores.pg.failures import words_of
from engines.restores.pg.outside import Outside

LITERAL = r"(?:'(?:[^'\\]|'')*'| ?E'(?:[^'\\]|''|\\\\)*')"
RIGHT = r"(?:NO)?(?:SUPERUSER|INHERIT|CREATEROLE|CREATEDB|LOGIN|REPLICATION|BYPASSRLS)"
OPTION = re.compile(rf" ({RIGHT}|CONNECTION LIMIT -?\d+|(?:PASSWORD|VALID UNTIL) {LITERAL})")
CREATE = re.compile(rf"CREATE ROLE ({IDENTIFIER});")
ALTER = re.compile(rf"ALTER ROLE ({IDENTIFIER}) WITH((?:{OPTION.pattern.replace('(', '(?:', 1)})+);")
SET = re.compile(rf"ALTER ROLE ({IDENTIFIER}) SET ({IDENTIFIER}) TO ({LITERAL}(?:, {LITERAL})*);")
COMMENT = re.compile(rf"COMMENT ON ROLE ({IDENTIFIER}) IS ({LITERAL});")
MEMBERSHIP = r"(?:ADMIN OPTION|(?:ADMIN|INHERIT|SET) (?:TRUE|FALSE|OPTION))"
GRANT = re.compile(
    rf"GRANT ({IDENTIFIER}) TO ({IDENTIFIER})(?: WITH ({MEMBERSHIP}(?:, {MEMBERSHIP})*))?(?: GRANTED BY {IDENTIFIER})?;"
)
BY_A_PERSON = frozenset({"SUPERUSER", "CREATEROLE", "REPLICATION", "BYPASSRLS"})


@dataclass
class MadeRoles:
    """The roles that were made. `names` of roles that were missing; `left`: the things that were not done, as text."""

    names: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Statement:
    role: str
    says: str
    sql: Any


def foreseen(lines: Iterable[str], there: set[str], *, with_rights: bool = False) -> MadeRoles:
    """The roles that `make_missing` would make, and the things that it would leave, at a server that has
    these roles.
    """
    made = MadeRoles()
    statements = [each for line in own_lines(lines) for each in _read(line.strip(), there, made, with_rights)]
    made.names = [each.role for each in statements if each.says == "CREATE ROLE"]
    return made


def make_missing(server: Any, lines: Iterable[str], *, with_rights: bool = False) -> MadeRoles:
    """Make the roles that the server of the connection lacks, with passwords, settings and memberships of each other.
    `with_rights`: True if they also get their rights over others' data. Raises: psycopg.Error when the server goes
    away.
    """
    import psycopg

    there = {name for (name,) in server.execute("SELECT rolname FROM pg_roles")}
    made = MadeRoles()
    for each in [each for line in own_lines(lines) for each in _read(line.strip(), there, made, with_rights)]:
        try:
            with server.transaction():
                server.execute(each.sql)
        except psycopg.Error as error:
            if error.sqlstate is None:
                raise
            made.left.append(f"role {each.role}: {each.says}: {error.sqlstate} {words_of(error.sqlstate)}")
        else:
            if each.says == "CREATE ROLE":
                made.names.append(each.role)
    return made


def own_lines(lines: Iterable[str]) -> Iterable[str]:
    """The lines that begin a statement: a role may give itself a setting of several lines, such as
    `GRANT boss TO me;`.
    """
    outside = Outside()
    return (line for line in lines if outside.begins(line))


def _read(line: str, there: set[str], made: MadeRoles, with_rights: bool) -> Iterable[_Statement]:
    """The statement that a line stands for, about a role that is missing."""
    from psycopg import sql

    if found := CREATE.fullmatch(line):
        if (role := name_of(found[1])) not in there:
            yield _Statement(role, "CREATE ROLE", sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
    elif found := ALTER.fullmatch(line):
        if (role := name_of(found[1])) not in there:
            yield from _options(role, found[2], made, with_rights)
    elif found := SET.fullmatch(line):
        if (role := name_of(found[1])) not in there:
            values = sql.SQL(", ").join(sql.Literal(text_of(each)) for each in re.findall(LITERAL, found[3]))
            names = sql.Identifier(role), sql.Identifier(name_of(found[2]))
            yield _Statement(role, f"SET {found[2]}", sql.SQL("ALTER ROLE {} SET {} TO {}").format(*names, values))
    elif found := COMMENT.fullmatch(line):
        if (role := name_of(found[1])) not in there:
            text = sql.Literal(text_of(found[2]))
            yield _Statement(role, "COMMENT", sql.SQL("COMMENT ON ROLE {} IS {}").format(sql.Identifier(role), text))
    elif found := GRANT.fullmatch(line):
        of, role = name_of(found[1]), name_of(found[2])
        if role not in there and of in there:
            made.left.append(
                f"role {role}: it is not a member of {of} yet: `GRANT {found[1]} TO {found[2]}` makes it one"
            )
        elif role not in there:
            how = sql.SQL(f" WITH {found[3]}") if found[3] else sql.SQL("")
            grant = sql.SQL("GRANT {} TO {}").format(sql.Identifier(of), sql.Identifier(role)) + how
            yield _Statement(role, f"GRANT {found[1]}", grant)
    elif line.startswith(("CREATE ROLE", "ALTER ROLE", "GRANT ")) and not line.startswith("ALTER ROLE ALL"):
        made.left.append("a line of globals.sql was left out: pg_dumpall writes no such line")


def _options(role: str, options: str, made: MadeRoles, with_rights: bool) -> Iterable[_Statement]:
    from psycopg import sql

    parts: list[sql.Composable] = [sql.SQL("ALTER ROLE {} WITH").format(sql.Identifier(role))]
    for option in OPTION.findall(options):
        if option in BY_A_PERSON and not with_rights:
            made.left.append(f"role {role}: {option} was left out: `ALTER ROLE … {option}` gives it back")
        elif literal := re.fullmatch(rf"(PASSWORD|VALID UNTIL) ({LITERAL})", option):
            parts += [sql.SQL(literal[1]), sql.Literal(text_of(literal[2]))]
        else:
            parts.append(sql.SQL(option))
    if len(parts) > 1:
        yield _Statement(role, "its rights and password", sql.SQL(" ").join(parts))


def name_of(identifier: str) -> str:
    return identifier[1:-1].replace('""', '"') if identifier.startswith('"') else identifier


def text_of(literal: str) -> str:
    is_escaped = literal.lstrip().startswith("E")
    text = literal.strip().removeprefix("E")[1:-1].replace("''", "'")
    return text.replace("\\\\", "\\") if is_escaped else text
