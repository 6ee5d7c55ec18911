"""Restores a dump into a PostgreSQL server of its own, which lives for that only, and counts it table by table.

It is restored by a role that owns one database and may do nothing else. Owners, grants and what only a superuser can
make are left out; roles that policies name are made without rights.
"""

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from sources.engines.limits import Space
from sources.engines.pg_dump import DATABASE, GLOBALS
from sources.processes.runner import Ended
from sources.restores.scratch import NAME, Database, Scratch, Server
from sources.storage.places import TargetFailed
from sources.storage.store import Store

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


def restored(files: Path, folder: Path, scratch: Scratch, space: Space, store: Store) -> Database:
    """Restore the dump that lies in `files`, with a server in `folder`. Raises: TargetFailed, Stopped, OSError."""
    server = _Server(folder / "data", scratch, space, store)
    if scratch.account:
        for each in (files, *files.iterdir()):
            os.chown(each, *scratch.account, follow_symlinks=False)
    encoding, expected = server.look_into(files / DATABASE)
    roles = [found[1] for line in _lines(files / GLOBALS) if (found := CREATE_ROLE.fullmatch(line.rstrip()))]
    with server.running(server.made(), signal.SIGINT):
        server.psql("postgres", [f"CREATE ROLE {each};" for each in roles])
        ended = server.psql("postgres", [
            "\\set ON_ERROR_STOP 1",
            f"CREATE ROLE {NAME} LOGIN BYPASSRLS;",
            f"CREATE DATABASE {NAME} OWNER {NAME} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0;",
        ])  # fmt: skip
        if ended.exit_code:
            raise TargetFailed(f"the scratch server: {' '.join(ended.last_lines[-1:])}")
        return server.count(server.load(files / DATABASE), expected)


def _lines(file: Path) -> Iterator[str]:
    if file.exists():
        with file.open(errors="replace") as lines:
            yield from lines


class _Server(Server):
    count_rows = "SELECT {}, count(*) FROM ONLY {};"

    def environment(self) -> dict[str, str]:
        return {"PGHOST": self.socket_folder(), "PGPORT": "5432"}

    def is_up(self) -> bool:
        return self.psql("postgres", ["SELECT;"]).exit_code == 0

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

        ended = self.run((self.program("pg_restore"), "--section=data", "--file=-", str(dump)), take)
        if ended.exit_code:
            raise TargetFailed(f"its dump cannot be read: {' '.join(ended.last_lines[-1:])}")
        return encoding[0], rows

    def program(self, name: str) -> str:
        return str(Path(self.scratch.programs) / name)

    def made(self) -> tuple[str, ...]:
        """Returns its command."""
        self.make(
            self.program("initdb"), f"--pgdata={self.data}", "--username=postgres", "--auth=trust", "--encoding=UTF8",
            "--locale=C", "--no-sync", "--no-instructions",
        )  # fmt: skip
        settings = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        return self.program("postgres"), f"-D{self.data}", *settings

    def load(self, dump: Path) -> Database:
        errors = list[str]()

        def take(line: str) -> None:
            if line.startswith(ERROR):
                errors.append(line.removeprefix(ERROR).removeprefix("could not execute query: "))

        argv = (self.program("pg_restore"), *LEFT_OUT, f"--dbname={NAME}", f"--username={NAME}", str(dump))
        return self.judge(self.run(argv, take), errors, lambda error: NOT_HERE.search(error) is not None)

    def ask(self, statements: list[str], on_line: Callable[[str], None] = lambda line: None) -> Ended:
        return self.psql(NAME, statements, on_line)

    def psql(self, user: str, lines: list[str], on_line: Callable[[str], None] = lambda line: None) -> Ended:
        options = ("--no-psqlrc", "--no-align", "--tuples-only", "--quiet", f"--username={user}", f"--dbname={user}")
        return self.run((self.program("psql"), *options), on_line, given="\n".join(lines).encode())
