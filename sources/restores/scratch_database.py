"""Restores a dump into a PostgreSQL server of its own, which lives for that only, and counts it table by table.

What a dump holds is run by that server: functions, for one. So it is restored by a role that owns one database and may
do nothing else, in a server that listens to no network, as an account without rights where that is possible. Owners,
grants and what only a superuser can make are left out; roles that policies name are made without rights.

The server ends with the process that started it, however that ends.
"""

import math
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sources.engines.limits import Space
from sources.engines.pg_dump.engine import DATABASE, GLOBALS
from sources.processes import runner
from sources.processes.runner import Command, Ended, Ending
from sources.storage.store import Stopped, StorageFailed, Store

ROLE = NAME = "backupsched_drill"
START_SECONDS = 60.0
KEPT = 20
SETTINGS = {
    "listen_addresses": "", "unix_socket_directories": ".", "unix_socket_permissions": "0700", "fsync": "off",
    "full_page_writes": "off", "autovacuum": "off", "wal_level": "minimal", "max_wal_senders": "0",
    "max_connections": "10", "shared_buffers": "32MB",
}  # fmt: skip
LEFT_OUT = (
    "--no-owner",
    "--no-privileges",
    "--no-tablespaces",
    "--no-publications",
    "--no-security-labels",
    "--no-subscriptions",
)
IDENTIFIER = r'(?:"(?:[^"]|"")+"|[a-z_][a-z0-9_$]*)'
COPY = re.compile(rf"COPY ({IDENTIFIER}\.{IDENTIFIER}) (?:\(.*\) )?FROM stdin;")
CREATE_ROLE = re.compile(rf"CREATE ROLE ({IDENTIFIER});")
ENCODING = re.compile(r"SET client_encoding = '(\w+)';")
ERROR = "pg_restore: error: "
NOT_HERE = re.compile(
    "permission denied|must be superuser|must be owner of extension|is not available|extension .* does not exist"
)
COUNTED = re.compile(r"(\d+)\|(\d+)")


@dataclass
class Database:
    """What came of it: rows by table as they were counted; `notes`: what was left out; `wrong`: what is not right."""

    tables: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def restored(
    files: Path, folder: Path, programs: str, account: tuple[int, int] | None, space: Space, store: Store
) -> Database:
    """Restore the dump that lies in `files`, with a server in `folder`. Raises: StorageFailed, Stopped, OSError."""
    scratch = _Scratch(folder / "data", Path(programs), account, space, store)
    if account:
        for each in (files, *files.iterdir()):
            os.chown(each, *account, follow_symlinks=False)
    encoding, expected = scratch.look_into(files / DATABASE)
    roles = [found[1] for line in _lines(files / GLOBALS) if (found := CREATE_ROLE.fullmatch(line.rstrip()))]
    with scratch.server():
        scratch.ask("postgres", [f"CREATE ROLE {each};" for each in roles], stays=False)
        scratch.ask("postgres", [
            f"CREATE ROLE {ROLE} LOGIN BYPASSRLS;",
            f"CREATE DATABASE {NAME} OWNER {ROLE} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0;",
        ])  # fmt: skip
        done = scratch.load(files / DATABASE)
        done.tables = scratch.count(list(expected))
    for name, number in expected.items():
        if (rows := done.tables.get(name)) != number:
            there = "is missing" if rows is None else f"has {rows:,} rows"
            done.wrong.append(f"table {name} {there}, and the dump holds {number:,}")
    return done


def _lines(file: Path) -> Iterator[str]:
    if file.exists():
        with file.open(errors="replace") as lines:
            yield from lines


@dataclass
class _Scratch:
    data: Path
    programs: Path
    account: tuple[int, int] | None
    space: Space
    store: Store
    inherited: tuple[int, ...] = ()

    def look_into(self, dump: Path) -> tuple[str, dict[str, int]]:
        """The encoding of a dump, and how many rows it holds of each table."""
        encoding, table, rows = ["UTF8"], [""], dict[str, int]()

        def take(line: str) -> None:
            if table[0]:
                if line == "\\.":
                    table[0] = ""
                else:
                    rows[table[0]] += 1
            elif found := COPY.fullmatch(line):
                table[0] = found[1]
                rows.setdefault(found[1], 0)
            elif found := ENCODING.fullmatch(line):
                encoding[0] = found[1]

        ended = self._run("pg_restore", "--section=data", "--file=-", str(dump), on_line=take)
        if ended.exit_code:
            raise StorageFailed(f"its dump cannot be read: {' '.join(ended.last_lines[-1:])}")
        return encoding[0], rows

    @contextmanager
    def server(self) -> Iterator[None]:
        self.data.mkdir(mode=0o700)
        if self.account:
            os.chown(self.data, *self.account)
        made = self._run(
            "initdb", f"--pgdata={self.data}", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C",
            "--no-sync", "--no-instructions",
        )  # fmt: skip
        if made.exit_code:
            raise StorageFailed(f"no scratch server can be made: {' '.join(made.last_lines[-1:])}")
        settings = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        argv = (str(self.programs / "postgres"), f"-D{self.data}", *settings)
        command = Command(argv, stall_timeout=math.inf, polite_signal=signal.SIGINT, account=self.account)
        end, last = threading.Event(), list[str]()
        thread = threading.Thread(target=lambda: last.extend(runner.run(command, stop=end).last_lines))
        descriptor = os.open(self.data, os.O_RDONLY)
        thread.start()
        try:
            self.inherited = (descriptor,)
            self._wait_for(thread, last)
            yield
        finally:
            end.set()
            thread.join()
            os.close(descriptor)

    def _wait_for(self, thread: threading.Thread, last: list[str]) -> None:
        until = time.monotonic() + START_SECONDS
        while self._psql("postgres", ["SELECT;"]).exit_code:
            if not thread.is_alive() or time.monotonic() > until:
                raise StorageFailed(f"the scratch server does not start: {' '.join(last[-3:])}")
            time.sleep(0.1)

    def ask(self, user: str, statements: list[str], *, stays: bool = True) -> None:
        """Raises: StorageFailed for what does not work, if it is to stay."""
        ended = self._psql(user, (["\\set ON_ERROR_STOP 1"] if stays else []) + statements)
        if ended.exit_code:
            raise StorageFailed(f"the scratch server: {' '.join(ended.last_lines[-1:])}")

    def load(self, dump: Path) -> Database:
        done, errors = Database(), list[str]()
        ended = self._run(
            "pg_restore", *LEFT_OUT, f"--dbname={NAME}", f"--username={ROLE}", str(dump),
            on_line=lambda line: errors.append(line.removeprefix(ERROR)) if line.startswith(ERROR) else None,
        )  # fmt: skip
        for each in errors:
            text = each.removeprefix("could not execute query: ")
            (done.notes if NOT_HERE.search(text) else done.wrong).append(text)
        if ended.exit_code and not errors:
            done.wrong.append(f"pg_restore ended with code {ended.exit_code}: {' '.join(ended.last_lines[-1:])}")
        done.notes = done.notes[:KEPT]
        return done

    def count(self, tables: list[str]) -> dict[str, int]:
        found: dict[str, int] = {}

        def take(line: str) -> None:
            if counted := COUNTED.fullmatch(line):
                found[tables[int(counted[1])]] = int(counted[2])

        asked = [f"SELECT {number}, count(*) FROM ONLY {table};" for number, table in enumerate(tables)]
        self._psql(ROLE, asked, take)
        return found

    def _psql(self, user: str, lines: list[str], on_line: Callable[[str], None] = lambda line: None) -> Ended:
        database = NAME if user == ROLE else "postgres"
        options = (
            "--no-psqlrc",
            "--no-align",
            "--tuples-only",
            "--quiet",
            f"--username={user}",
            f"--dbname={database}",
        )
        return self._run("psql", *options, given="\n".join(lines).encode(), on_line=on_line)

    def _run(
        self, program: str, *arguments: str, given: bytes = b"", on_line: Callable[[str], None] = lambda line: None
    ) -> Ended:
        # the path of a socket has 107 bytes at most, which a folder may have used up
        host = f"/proc/self/fd/{self.inherited[0]}" if self.inherited and Path("/proc/self/fd").exists() else self.data
        command = Command(
            (str(self.programs / program), *arguments),
            {"PGHOST": str(host), "PGPORT": "5432"},
            stall_timeout=math.inf,
            grace=self.store.grace,
            given=given,
            inherited=self.inherited,
            account=self.account,
        )
        ended = runner.run(command, stop=self.store.stop, on_line=on_line, sign_of_life=self._check_room)
        if ended.ending is Ending.STOPPED:
            raise Stopped
        return ended

    def _check_room(self) -> None:
        if lack := self.space.lack():
            raise StorageFailed(f"the scratch database does not fit: {lack}")
