"""Roles that a dump needs and its server has no longer: made again, as the `globals.sql` of the point says.

A role that is there stays as it is: the file would give it the password and the rights of the day of the backup.
"""

import re
from collections.abc import Iterable
from typing import Any

from sources.restores.scratch_database import IDENTIFIER

CREATED = re.compile(rf"(?:CREATE|ALTER) ROLE ({IDENTIFIER})(?: .*)?;")
GRANTED = re.compile(rf"GRANT {IDENTIFIER} TO ({IDENTIFIER})(?: .*)?;")


def make_missing(server: Any, lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Make those of `globals.sql` that the server of the connection lacks, with passwords, rights, settings and
    memberships, all or none. Returns their names, and in words what could not be done."""
    import psycopg

    there = {f'"{name}"' for (name,) in server.execute("SELECT replace(rolname, '\"', '\"\"') FROM pg_roles")}
    wanted = [
        (found[1], line)
        for line in map(str.strip, lines)
        if (found := CREATED.fullmatch(line) or GRANTED.fullmatch(line)) and _quoted(found[1]) not in there
    ]
    made, failed = list[str](), list[str]()
    with server.transaction():
        for name, statement in wanted:
            try:
                with server.transaction():
                    server.execute(statement)
            except psycopg.Error as error:
                what = statement.partition(" PASSWORD ")[0].rstrip(";")
                failed.append(f"{what}: {str(error).partition(chr(10))[0]}")
            else:
                if statement.startswith("CREATE"):
                    made.append(name)
    return made, failed


def _quoted(name: str) -> str:
    return name if name.startswith('"') else f'"{name}"'
