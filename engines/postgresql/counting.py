"""Counts tables and rows of a dump while pg_restore reads it whole: its SQL goes through a pipe, in chunks, and is
searched and never split into lines.
"""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

READ_BYTES = 2**20
BEGINNING = re.compile(rb"(?:\A|(?<=\n))COPY [^\n]+ FROM stdin;\n")
END = b"\n\\.\n"
LONGEST_BEGINNING = 2**18
"""Bytes of a COPY line with the names of 1,600 columns."""


class Counter:
    """A counter of tables and rows in the SQL of the data of a dump (`--section=data`)."""

    def __init__(self) -> None:
        self.tables = self.rows = 0
        self._held, self._in_rows, self._counted = b"\n", False, 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        data, at = self._held + chunk, 0
        while True:
            if self._in_rows:
                end = data.find(END, at)
                if end < 0:
                    keep = max(len(data) - len(END) + 1, at + self._counted)
                    self.rows += data.count(b"\n", at + self._counted, keep)
                    start = max(at, len(data) - len(END) + 1)
                    self._held, self._counted = data[start:], keep - start
                    return
                self.rows += data.count(b"\n", at + self._counted, end + 1)
                self._in_rows, at = False, end + len(END)
            begun = BEGINNING.search(data, at)
            if begun is None:
                line = max(at, data.rfind(b"\n") + 1, len(data) - LONGEST_BEGINNING)
                self._held = data[max(line - 1, 0) :]
                return
            self.tables += 1
            # the line end before the first row may also begin the end marker; it ends no row
            self._in_rows, at, self._counted = True, begun.end() - 1, 1


@contextmanager
def counting() -> Iterator[tuple[int, Counter]]:
    """A descriptor to write SQL to, and the counter of that SQL: it has counted everything once the block has ended."""
    counter, (reads, writes) = Counter(), os.pipe()

    def read() -> None:
        while chunk := os.read(reads, READ_BYTES):
            counter.feed(chunk)

    thread = threading.Thread(target=read, name="count-rows", daemon=True)
    thread.start()
    try:
        yield writes, counter
    finally:
        os.close(writes)
        thread.join()
        os.close(reads)
