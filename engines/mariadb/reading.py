"""Reads a dump of mariadb-dump or mysqldump as a stream, for any size and any length of its lines. Pure.

A statement begins at the beginning of a line, and bodies of triggers and routines are enclosed by other delimiters.
Rows of INSERT are in parentheses, which occur elsewhere only in strings and, before the rows, in a list of columns.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

PIECE = 2**20
NAME = rb"`((?:[^`]|``)+)`"
CREATE = re.compile(rb"CREATE TABLE (?:IF NOT EXISTS )?" + NAME + rb" \($")
COLUMNS = rb"\((?:(?:`(?:[^`]|``)+`|\w++)(?:, |(?=\))))*+\) "
INSERT = re.compile(rb"INSERT INTO " + NAME + rb" (?:" + COLUMNS + rb")?VALUES\s*")
STRING = re.compile(rb"'(?:[^'\\]|\\.)*+'", re.DOTALL)
OUTSIDE = re.compile(rb"(?:[^']++|" + STRING.pattern + rb")*+", re.DOTALL)
"""A piece as far as it has no string that continues in the next one: `STRING` would try each quote in there."""
REST_OF_STRING = re.compile(rb"(?:[^'\\]|\\.)*+'", re.DOTALL)
DELIMITER = b"DELIMITER "
LAST_LINE = b"-- Dump completed"

ANY_NAME = rb"(`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|[^\s`\"(.]+)"
"""A name, as the author of a trigger has written it."""
OBJECTS = (
    ("view", re.compile(rb"/\*!50001 VIEW (`(?:[^`]|``)+`)")),
    ("sequence", re.compile(rb"CREATE SEQUENCE (?:IF NOT EXISTS )?(`(?:[^`]|``)+`)")),
)
BODIES = tuple(
    (kind.lower().replace(" ", "-"), re.compile(pattern, re.IGNORECASE | re.DOTALL))
    for kind, pattern in (
        (
            "TRIGGER",
            rb".*?\bTRIGGER\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:"
            + ANY_NAME
            + rb"\s*\.\s*)?"
            + ANY_NAME
            + rb"\s+(?:BEFORE|AFTER)\b",
        ),
        *(
            (kind, rb".*?\b" + kind.encode() + rb"\s+" + ANY_NAME)
            for kind in ("EVENT", "PACKAGE BODY", "PACKAGE", "FUNCTION", "PROCEDURE")
        ),
    )
)
"""Objects whose bodies are enclosed by other delimiters."""
BODY = re.compile(rb"(?:/\*!\d+ )?CREATE\b")
LONGEST_HEAD = 4_096


@dataclass
class DumpContents:
    """The contents of a dump. `rows` by table, as SQL writes its name; `objects`: names by kind; `versioned`: tables
    with system versioning; `is_whole`: True if the line that ends each dump is there.
    """

    rows: dict[str, int] = field(default_factory=dict)
    objects: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    versioned: set[str] = field(default_factory=set)
    is_whole: bool = False


def read(dump: IO[bytes], on_piece: Callable[[], object] = lambda: None) -> DumpContents:
    """Count the contents of a dump. `on_piece` is called for each MiB, and may raise."""
    found, rows, is_new = DumpContents(), _RowCounter(), True
    table: str | None = None
    size, in_body, created_table, head = 0, False, "", b""
    while line := dump.readline(PIECE):
        if (size := size + len(line)) >= PIECE:
            size = 0
            on_piece()
        if is_new and table is None:
            if line.startswith(DELIMITER):
                in_body = line.strip() != b"DELIMITER ;"
            if in_body:
                head = _begin(head, line, found)
                is_new = line.endswith(b"\n")
                continue
            found.is_whole = line.startswith(LAST_LINE) if line.strip() else found.is_whole
            if created := CREATE.match(line.rstrip()):
                found.rows.setdefault(created_table := _name(created[1]), 0)
                found.objects["table"].add(_plain(b"`" + created[1] + b"`"))
            elif inserted := INSERT.match(line):
                table = _name(inserted[1])
                line = line[inserted.end() :]
            elif line.startswith(b")") and b" WITH SYSTEM VERSIONING" in line:
                found.versioned.add(created_table)
            else:
                _note(line, OBJECTS, found)
        is_new = line.endswith(b"\n")
        if table is not None:
            found.rows[table] = found.rows.get(table, 0) + rows.count(line)
            if is_new and not rows.in_string and rows.ended:
                table = None
    return found


def _begin(head: bytes, line: bytes, found: DumpContents) -> bytes:
    """Note the object that a body makes, whose name may follow some lines below the body's beginning. Returns the head
    so far.
    """
    if not head and not BODY.match(line):
        return b""
    head += line
    return b"" if _note(head, BODIES, found) or len(head) > LONGEST_HEAD else head


def _note(text: bytes, patterns: tuple[tuple[str, re.Pattern[bytes]], ...], found: DumpContents) -> bool:
    for kind, pattern in patterns:
        if named := pattern.match(text):
            found.objects[kind].add(_plain(named.groups()[-1]))
            return True
    return False


def _plain(name: bytes) -> bytes:
    quote = name[:1]
    return name[1:-1].replace(quote * 2, quote) if quote in (b"`", b'"') else name


def _name(quoted: bytes) -> str:
    return f"`{quoted.decode(errors='surrogateescape')}`"


class _RowCounter:
    """A counter of rows in pieces of an INSERT, which may break a string."""

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
        outside = OUTSIDE.match(piece)
        quote = outside.end() if outside else 0
        if quote < len(piece):
            self.in_string = True
            self._hold_backslash(piece[quote + 1 :])
        bare = STRING.sub(b"", piece[:quote])
        self.ended = bare.rstrip().endswith(b";")
        return bare.count(b"(")

    def _hold_backslash(self, text: bytes) -> None:
        if (len(text) - len(text.rstrip(b"\\"))) % 2:
            self._held = b"\\"
