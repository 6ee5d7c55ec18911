"""Distinguishes the statements of a dump from lines that only look like statements: those of a function's body, of a
comment, or of a setting. They are the words of any user who may make a function in the database that was dumped, and
not an order to its server.
"""

import re

BEGINNING = re.compile(r"--|['\"]|\$(?:[^\W\d]\w*)?\$")


class Outside:
    """A reader of the lines of a dump, one by one, as pg_dump and pg_dumpall quote: a quote within quotes is doubled,
    so that it ends them and begins them again.
    """

    def __init__(self) -> None:
        self._end = ""
        """The quote in which the next line begins; empty if it begins in none."""

    def begins(self, line: str) -> bool:
        """True if a line begins outside of all quotes."""
        was_outside, at = not self._end, 0
        while True:
            if self._end:
                at = line.find(self._end, at)
                if at < 0:
                    return was_outside
                at, self._end = at + len(self._end), ""
            found = BEGINNING.search(line, at)
            if found is None or found[0] == "--":
                return was_outside
            at, self._end = found.end(), found[0]
