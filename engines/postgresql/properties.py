"""The properties of a PostgreSQL database itself, which come back with a dump only under its old name: asked by a
separate query, kept as `database.json` next to the dump.
"""

from collections.abc import Callable
from pathlib import Path

from external.processes.runner import ProgramEnd

PROPERTIES = "database.json"
SQL = (Path(__file__).with_name("sql") / "database.sql").read_bytes()
WITHOUT = "owner, rights, settings and locale of the database were not kept: note them yourself"


def asked(ask: Callable[[Callable[[str], None]], ProgramEnd]) -> str:
    """The object as psql returns it, empty if it returns none. `ask`: runs psql with `SQL`, and passes each line to its
    argument.
    """
    found = [""]

    def take(line: str) -> None:
        if line.startswith("{"):
            found[0] = line

    return found[0] if ask(take).exit_code == 0 else ""
