"""Failures of a dump at a server: read from the output of programs, and described in texts that quote no row."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engines.restores import playing

ENTRY = re.compile(r"pg_restore: from TOC entry (\d+); \d+ \d+ (.*)")
OF_ROWS, COMMAND, OF_PROGRAM = "pg_restore: error: ", "Command was: ", "pg_restore: "
OF_PSQL = re.compile(r"psql:<stdin>:(\d+): (.*)")
ANSWER = re.compile(r"[^:]+:  ([0-9A-Z]{5}): .*")
STATEMENT = "STATEMENT:  "
KEPT, LONGEST_TEXT, FIRST_WORDS = 10_000, 20_000, 80
LITERAL = re.compile(r"'(?:[^']|'')*(?:'|$)|\$(\w*)\$.*?(?:\$\1\$|$)", re.DOTALL)


@dataclass
class StatementFailure:
    """A statement, or the rows of a table, that the server did not accept. `entry`: the number of the rows in the dump;
    `statement`: the whole statement, empty for rows; `text`: the error, which may quote rows; `state`: its SQLSTATE, as
    far as it is known.
    """

    what: str
    entry: int | None = None
    statement: str = ""
    text: str = ""
    state: str = ""
    space: str = ""
    """The tablespace that was set for its statement."""

    def __str__(self) -> str:
        known = f"{self.what}: {self.state} {words_of(self.state)}".strip(" :")
        text = f"{known}: {first_words(self.statement)}" if self.statement else known
        return readable(text)


class RowErrors:
    """A reader, line by line, of the output of pg_restore as it loads rows."""

    def __init__(self, objects: Mapping[int, str]) -> None:
        """`objects`: the names of the entries of the dump."""
        self.objects, self.found = objects, list[StatementFailure]()
        self.entry: tuple[int, str] | None = None
        self.part = ""

    def take(self, line: str) -> None:
        if found := ENTRY.fullmatch(line):
            number = int(found[1])
            self.entry, self.part = (number, self.objects.get(number) or found[2]), ""
        elif line.startswith(OF_ROWS):
            self.part = "text" if len(self.found) < KEPT else ""
            if self.part:
                text = line.removeprefix(OF_ROWS).removeprefix("could not execute query: ")
                entry, what = self.entry or (None, "the session")
                self.found.append(StatementFailure(what, entry, text=text))
        elif line.startswith(OF_PROGRAM):
            self.part = ""
        elif self.part:
            self._more(line)

    def _more(self, line: str) -> None:
        last = self.found[-1]
        if self.part == "text" and line.startswith(COMMAND):
            self.part, last.statement = "statement", line.removeprefix(COMMAND)
        elif self.part == "text":
            last.text = f"{last.text}\n{line}"[:LONGEST_TEXT]
        else:
            last.statement += f"\n{line}"


class StatementErrors:
    """A reader, line by line, of the output of psql: answers with their SQLSTATEs, and each statement that failed."""

    def __init__(self) -> None:
        self.found = list[tuple[int, StatementFailure]]()
        """The failures, each with the number of the line where its statement ends."""
        self.away = ""
        self.part = ""

    def take(self, line: str) -> None:
        if found := OF_PSQL.fullmatch(line):
            self._begin(int(found[1]), found[2])
        elif self.part and self.found:
            last = self.found[-1][1]
            if self.part == "text":
                last.text = f"{last.text}\n{line}"[:LONGEST_TEXT]
            else:
                last.statement += f"\n{line}"

    def _begin(self, number: int, said: str) -> None:
        if said.startswith(STATEMENT) and self.part == "text":
            self.part = "statement"
            self.found[-1][1].statement = said.removeprefix(STATEMENT)
        elif answer := ANSWER.fullmatch(said):
            self.part = "text" if len(self.found) < KEPT else ""
            if self.part:
                self.found.append((number, StatementFailure("", text=said, state=answer[1])))
        else:
            self.part = ""
            if said.startswith("error: ") or "connection" in said:
                self.away = said


def is_harmless(failure: StatementFailure) -> bool:
    """True if it is a setting that programs make for themselves, and that a server of another version does not know."""
    of_user = not failure.statement or _as_all_know_it(failure.statement)
    return playing.is_new_setting(failure.statement) or not of_user


def to_be_tried(failure: StatementFailure) -> StatementFailure:
    """The same failure, with its statement as servers of all versions know it."""
    return replace(failure, statement=_as_all_know_it(failure.statement))


def _as_all_know_it(statement: str) -> str:
    return playing.without_counter(statement.encode(errors="surrogateescape")).decode(errors="surrogateescape")


def readable(text: str) -> str:
    """A text that was read from a dump byte by byte, for users."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def words_of(state: str) -> str:
    """The words for an SQLSTATE, such as `undefined function` for 42883; empty if it is not known."""
    from psycopg import errors

    try:
        name = errors.lookup(state).__name__
    except KeyError:
        return ""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def first_words(statement: str) -> str:
    """The first words of a statement, without its literals: a user mapping has a password."""
    line = " ".join(LITERAL.sub("'…'", statement).split())
    return line if len(line) <= FIRST_WORDS else f"{line[:FIRST_WORDS]}…"
