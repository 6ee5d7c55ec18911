"""Reads a dump of mariadb-dump or mysqldump as a stream, whatever its size and however long its lines are. Pure.

A statement begins at the beginning of a line, and bodies of triggers and routines stand between other delimiters. Rows
of INSERT are in parentheses, which stand elsewhere only in strings and, before the rows, in a list of columns.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

PIECE = 2**20
NAME = rb"`((?:[^`]|``)+)`"
CREATE = re.compile(rb"CREATE TABLE (?:IF NOT EXISTS )?" + NAME + rb" \($")
COLUMNS = rb"\((?:`(?:[^`]|``)+`(?:, )?)*\) "
INSERT = re.compile(rb"INSERT INTO " + NAME + rb" (?:" + COLUMNS + rb")?VALUES\s*")
STRING = re.compile(rb"'(?:[^'\\]|\\.)*+'", re.DOTALL)
REST_OF_STRING = re.compile(rb"(?:[^'\\]|\\.)*+'", re.DOTALL)
DELIMITER = b"DELIMITER "
LAST_LINE = b"-- Dump completed"


@dataclass
class Contents:
    """`rows` by table, as SQL writes its name; `is_whole`: the line that ends each dump is there."""

    rows: dict[str, int] = field(default_factory=dict)
    is_whole: bool = False


def read(dump: IO[bytes], on_piece: Callable[[], object] = lambda: None) -> Contents:
    """Count what a dump holds. `on_piece` is called for each MiB, and may raise."""
    found, rows, is_new = Contents(), _Rows(), True
    table: str | None = None
    size, in_body = 0, False
    while line := dump.readline(PIECE):
        if (size := size + len(line)) >= PIECE:
            size = 0
            on_piece()
        if is_new and table is None:
            if line.startswith(DELIMITER):
                in_body = line.strip() != b"DELIMITER ;"
            if in_body:
                is_new = line.endswith(b"\n")
                continue
            found.is_whole = line.startswith(LAST_LINE) if line.strip() else found.is_whole
            if created := CREATE.match(line.rstrip()):
                found.rows.setdefault(_name(created[1]), 0)
            elif inserted := INSERT.match(line):
                table = _name(inserted[1])
                line = line[inserted.end() :]
        is_new = line.endswith(b"\n")
        if table is not None:
            found.rows[table] = found.rows.get(table, 0) + rows.count(line)
            if is_new and not rows.in_string and rows.ended:
                table = None
    return found


def _name(quoted: bytes) -> str:
    return f"`{quoted.decode(errors='surrogateescape')}`"


class _Rows:
    """Counts rows in pieces of an INSERT, which may break a string."""

    def __init__(self) -> None:
        self.in_string = self.ended = False
        self._held = b""

    def count(self, piece: bytes) -> int:
        piece, self._held = self._held + piece, b""
        if self.in_string:
            rest = REST_OF_STRING.match(piece)
            if rest is None:
                self._hold_backslash(piece)
                return 0
            self.in_string, piece = False, piece[rest.end() :]
        bare = STRING.sub(b"", piece)
        quote = bare.find(b"'")
        if quote >= 0:
            self.in_string = True
            self._hold_backslash(bare[quote + 1 :])
            bare = bare[:quote]
        self.ended = bare.rstrip().endswith(b";")
        return bare.count(b"(")

    def _hold_backslash(self, text: bytes) -> None:
        if (len(text) - len(text.rstrip(b"\\"))) % 2:
            self._held = b"\\"
