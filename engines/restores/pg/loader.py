"""A database that a dump is loaded into, and how the programs that load it run there."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from engines.restores import loading, playing
from engines.restores.pg.failures import StatementFailure
from external.processes.runner import ProgramEnd

FORMAT = "--format=custom"
"""The only format that pg_restore is allowed to read: a folder as a dump names files that it would open."""
AS_THEY_ARE = "surrogateescape"
"""A dump is in the encoding of its database: text that is read from it and given back to a server loses no byte."""
Run = Callable[..., ProgramEnd]
"""Runs a program: its argv, a function that takes each line of its output, `more` file descriptors that stay open in
it, and other fields of `runner.Command`.
"""


@dataclass(frozen=True)
class Loader:
    """The way in which a dump is loaded into one database.

    `run` runs a program there; `program` finds it; `to`: how the programs connect; `left_out`: options with which
    pg_restore leaves out what that server is not given; `account`: that of the programs, if it is another one.
    `make_up`: makes the things for lack of which statements failed, as far as that server may have something else
    instead; returns them as text. `make_ahead`: makes, before the statements of a file run, the things that they may
    not make; returns the schemas that exist then.
    """

    run: Run
    program: Callable[[str], str]
    to: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    account: tuple[int, int] | None = None
    make_up: Callable[[list[StatementFailure]], list[str]] = lambda failures: []
    make_ahead: Callable[[IO[bytes]], set[str]] = lambda script: set()

    @contextmanager
    def file(self) -> Iterator[IO[bytes]]:
        """A file without a name, which its programs may open as `/dev/fd/NUMBER`: in memory where possible, so that an
        account that may open nothing here can open it.
        """
        if hasattr(os, "memfd_create"):
            with os.fdopen(os.memfd_create("script"), "w+b") as file:
                yield file
        else:
            with tempfile.TemporaryFile() as file:
                yield file

    def read(
        self, dump: int, options: tuple[str, ...], on_line: Callable[[str], None] = lambda line: None, *more: int
    ) -> ProgramEnd:
        """Let pg_restore read a dump from its beginning."""
        os.lseek(dump, 0, os.SEEK_SET)
        program = self.program("pg_restore")
        apart = loading.apart_from(program, self.account)
        return self.run((program, FORMAT, *options), on_line, more=more, reads=dump, odd_bytes=AS_THEY_ARE, **apart)

    def play(
        self, dump: int, options: tuple[str, ...], more: tuple[int, ...], on_line: Callable[[str], None]
    ) -> ProgramEnd:
        """Let psql run the SQL that pg_restore reads from the dump, in one transaction (`engines.restores.playing`)."""
        os.lseek(dump, 0, os.SEEK_SET)
        read, psql = self.program("pg_restore"), self.program("psql")
        argv = playing.command(
            (read, FORMAT, *options), (psql, *self.to), "--set=VERBOSITY=sqlstate", account=self.account
        )
        apart = loading.apart_from(read, None, playing.PROGRAM[-1])  # it changes the account of its programs itself
        return self.run(argv, on_line, more=more, reads=dump, **apart)

    def ask(
        self, statements: Iterable[str] | int, on_line: Callable[[str], None] = lambda line: None, *options: str
    ) -> ProgramEnd:
        """Let psql run statements, or those of an open file, each by itself."""
        program = self.program("psql")
        usual = ("--no-psqlrc", "--no-align", "--tuples-only", "--quiet", "--no-password", "--file=-")
        how: dict[str, Any] = {"odd_bytes": AS_THEY_ARE, **loading.apart_from(program, self.account)}
        if isinstance(statements, int):
            os.lseek(statements, 0, os.SEEK_SET)
            how["reads"] = statements
        else:
            how["given"] = "\n".join(statements).encode(errors="surrogateescape")
        return self.run((program, *usual, *options, *self.to), on_line, **how)
