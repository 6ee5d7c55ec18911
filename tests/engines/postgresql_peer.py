"""Real PostgreSQL servers of a test's own, at a socket: the embedded 18, and Debian's older ones."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from backupsched.embedded import Layout
from backupsched.embedded.binaries import server_bin
from engines.base import SourceSpec
from tests.engines.peers import specification
from tests.programs import postgresql_programs

EMBEDDED, DEBIAN = 18, 15
SETTINGS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=", "wal_level=logical")
ADMIN = "admin"
PASSWORD = "p'w \\ \"x"


@dataclass
class PostgresqlServer:
    """One that runs. Its superuser is `admin`."""

    version: int
    folder: Path

    @property
    def reached(self) -> dict[str, str]:
        """The environment of a program that connects."""
        return {"PGHOST": str(self.folder), "PGUSER": ADMIN, "PGPASSWORD": PASSWORD, "LC_ALL": "C"}

    def connect(self, database: str = "postgres", **other: Any) -> psycopg.Connection[Any]:
        given = {
            "host": str(self.folder),
            "user": ADMIN,
            "password": PASSWORD,
            "dbname": database,
            "client_encoding": "UTF8",
        }
        given |= other
        return psycopg.connect(autocommit=True, **given)

    def run(self, text: str, database: str = "postgres") -> None:
        """Several statements, each by itself."""
        with self.connect(database) as connection:
            for statement in text.split(";;"):
                if statement.strip():
                    connection.execute(statement.encode())

    def ask(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with self.connect(database) as connection:
            return connection.execute(statement.encode()).fetchall()

    def source(self, **fields: Any) -> SourceSpec:
        usual = {"path": "shop", "options": {"user": ADMIN}, "secret": PASSWORD}
        return specification("postgresql", str(self.folder), **usual | fields)


@contextmanager
def postgresql_server(
    version: int, *, initdb: tuple[str, ...] = (), settings: tuple[str, ...] = ()
) -> Iterator[PostgresqlServer]:
    """Skips the test where that version is not installed."""
    folder = Path(tempfile.mkdtemp(prefix=f"postgresql-{version}-"))
    layout = Layout(folder)
    account, programs = layout.account, server_bin(layout) if version == EMBEDDED else postgresql_programs(version)
    as_user: dict[str, Any] = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}
    data, password = folder / "data", folder / "password"

    def run(program: str, *arguments: str) -> None:
        with (folder / "said").open("a") as said:  # a server that pg_ctl starts would hold a pipe open
            argv = [programs / program, *arguments]
            subprocess.run(argv, env=environment, cwd=folder, stdout=said, stderr=said, check=True, **as_user)

    try:
        password.write_text(PASSWORD)
        if account:
            for each in (folder, password):
                os.chown(each, account.pw_uid, account.pw_gid)
        run(
            "initdb", f"--pgdata={data}", f"--username={ADMIN}", f"--pwfile={password}", "--auth=scram-sha-256",
            "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", *initdb,
        )  # fmt: skip
        options = " ".join(f"-c {each}" for each in (*SETTINGS, *settings, f"unix_socket_directories={folder}"))
        run("pg_ctl", f"--pgdata={data}", "--wait", f"--log={folder / 'log'}", f"--options={options}", "start")
        folder.chmod(0o711)
        try:
            yield PostgresqlServer(version, folder)
        finally:
            run("pg_ctl", f"--pgdata={data}", "--mode=immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
