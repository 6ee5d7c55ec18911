"""A dump on its way into a database of another name: wherever mariadb-dump cannot avoid writing the old name, it comes
to mean the new one.

Such places are defaults of columns that ask a sequence, and texts of views that are not valid where they were dumped.
Otherwise a restored table would ask the sequence of the old database forever. Text that users wrote themselves, such as
the body of a trigger, stays as it is. LOCK TABLES is left out: under it no row gets its default from a sequence.
"""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from engines.mariadb.reading import CREATE, PIECE

HEADER = re.compile(rb"-- Host: \S* {4}Database: (.+)\n")
HEADER_LINES = 10
LOCK = re.compile(rb"LOCK TABLES `(?:[^`]|``)+` WRITE;\n")
VIEW = b"/*!50001 VIEW "


class NameRemoval:
    """The removal of a database's name. `database`: its name in the dump; if it is empty, it is not known, and nothing
    is changed.
    """

    def __init__(self, database: bytes) -> None:
        old = b"`" + database.replace(b"`", b"``") + b"`"
        self.database = database
        self.default = re.compile(rb"( DEFAULT (?:nextval|lastval)\()" + re.escape(old) + rb"\.", re.IGNORECASE)
        self.in_view = re.compile(
            rb"'(?:[^'\\]|\\.|'')*'|(" + re.escape(old) + rb"\.)(?=`(?:[^`]|``)+`(?:\.`|\())|`(?:[^`]|``)+`", re.DOTALL
        )

    def of_view(self, text: bytes) -> bytes:
        """The text of a view, in which the database precedes a table and its column, or a function."""
        return self.in_view.sub(lambda found: b"" if found[1] else found[0], text) if self.database else text

    def of_column(self, line: bytes) -> bytes:
        """A line of a CREATE TABLE."""
        return self.default.sub(rb"\1", line) if self.database else line


def lines_of(dump: IO[bytes]) -> Iterator[bytes]:
    """The lines of a dump, in pieces, as they are loaded into a database of any name."""
    renaming, number, is_new, in_table = NameRemoval(b""), 0, True, False
    while line := dump.readline(PIECE):
        began, is_new = is_new, line.endswith(b"\n")
        if began:
            number += 1
            if number <= HEADER_LINES and (found := HEADER.fullmatch(line)):
                renaming = NameRemoval(found[1])
            elif LOCK.fullmatch(line):
                line = b"\n"
            elif line.startswith(VIEW):
                line = renaming.of_view(line)
            elif in_table:
                in_table = not line.startswith(b")")
                line = renaming.of_column(line)
            else:
                in_table = CREATE.match(line.rstrip()) is not None
        yield line


@contextmanager
def moved(dump: int) -> Iterator[int]:
    """The same lines as an open file, which a program may read."""
    reads, writes = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), open(writes, "wb") as out, open(dump, "rb", closefd=False) as content:
            out.writelines(lines_of(content))

    thread = threading.Thread(target=write, name="move-dump", daemon=True)
    thread.start()
    try:
        yield reads
    finally:
        os.close(reads)
        thread.join()
