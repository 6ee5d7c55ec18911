"""Tables with pages that their server cannot read: pg_dump ends at the first one, which would cost all the others."""

import re
from collections.abc import Callable

from external.processes.runner import ProgramEnd

MOST = 3
"""The most tables that are left out; each makes the dump start over."""
UNREADABLE = re.compile(
    r"invalid page in block|could not read block|page verification failed|missing chunk number|unexpected chunk|"
    r"(pglz|lz4) data is corrupt|invalid memory alloc request size|could not access status of transaction|"
    r'could not open file "(base|pg_tblspc)/'
)
IDENTIFIER = r'(?:"(?:[^"]|"")+"|[a-z_][a-z0-9_$]*)'
COMMAND = re.compile(rf"Command was: COPY ({IDENTIFIER}\.{IDENTIFIER}) (?:\(.*\) )?TO stdout;")
NOT_KEPT = (
    "not in the dump: the rows of {}, which the server cannot read ({}): its disk or memory may be failing. Keep the "
    "points from before; where checksums are on, `pg_amcheck` and the server's log show its extent"
)


def dump_what_can_be_read(dump: Callable[..., ProgramEnd]) -> tuple[ProgramEnd, list[str]]:
    """Run pg_dump, and again without the rows of each table that is damaged. `dump` takes additional arguments. Returns
    the end of its last run, and the omissions as sentences.
    """
    left_out, warnings = list[str](), list[str]()
    while True:
        ended = dump(*(f"--exclude-table-data={each}" for each in left_out))
        table, why = damaged_in(ended)
        if not table or table in left_out or len(left_out) == MOST:
            return ended, warnings
        left_out.append(table)
        warnings.append(NOT_KEPT.format(table, why))


def damaged_in(ended: ProgramEnd) -> tuple[str, str]:
    """The table at which pg_dump ended, as SQL writes it, and the server's message; both empty if it
    ended otherwise.
    """
    text = "\n".join(ended.last_lines) if ended.exit_code > 0 else ""
    said, command = UNREADABLE.search(text), COMMAND.search(text)
    return (command[1], said[0]) if said and command else ("", "")
