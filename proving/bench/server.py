"""One embedded PostgreSQL for all contestants, durable, in a temporary directory; removed at the end.

Databases are cloned from templates, so that each run of a contestant starts with the same files and none with the
remains of another.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from backupsched.embedded import Server
from backupsched.embedded.layout import PORT, USER

DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
ROOM = {
    # so that no checkpoint falls into one contestant's run and not into another's
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "max_connections": "200",
}
SHOWN = ("server_version", *DURABLE, "shared_buffers", "max_wal_size", "autovacuum")


class BenchServer:
    """The server, with its databases by name."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """A connection in autocommit mode."""
        return self._server.connect(database)

    def url(self, database: str) -> str:
        """The database's URL, in the form of DATABASE_URL; psycopg and asyncpg understand it too."""
        host = quote(str(self._server.layout.socket_directory), safe="")
        return f"postgresql://{USER}:{quote(self._server.password() or '')}@{host}:{PORT}/{database}"

    def exists(self, database: str) -> bool:
        with self.connect() as connection:
            found = connection.execute("SELECT FROM pg_database WHERE datname = %s", [database]).fetchone()
        return found is not None  # a row without columns is an empty tuple

    def names(self, start: str) -> list[str]:
        """The names of the databases that begin with `start`."""
        with self.connect() as connection:
            found = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [start])
            return [name for (name,) in found.fetchall()]

    def create(self, database: str, template: str = "template0") -> None:
        """Create `database` as a copy of `template`, in place of an older one."""
        self.drop(database)
        with self.connect() as connection:
            connection.execute(f'CREATE DATABASE "{database}" TEMPLATE "{template}" STRATEGY file_copy')

    def drop(self, database: str) -> None:
        with self.connect() as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')

    def rename(self, database: str, name: str) -> None:
        with self.connect() as connection:
            connection.execute(f'ALTER DATABASE "{database}" RENAME TO "{name}"')

    @contextmanager
    def copy_of(self, template: str, name: str = "run") -> Iterator[str]:
        """Make a new database for one run. Yields its name."""
        self.create(name, template)
        try:
            yield name
        finally:
            self.drop(name)

    def settle_down(self, database: str) -> None:
        """Vacuum and analyse, so that each contestant's planner knows its tables."""
        with self.connect(database) as connection:
            connection.execute("VACUUM (ANALYZE)")

    def checkpoint(self) -> None:
        """Write out the pages of earlier runs, so that they are not written during the next."""
        with self.connect() as connection:
            connection.execute("CHECKPOINT")

    def settings(self) -> dict[str, str]:
        with self.connect() as connection:
            return {name: str(connection.execute(f"SHOW {name}").fetchone()[0]) for name in SHOWN}  # type: ignore[index]


@contextmanager
def running_server(kept: Path | None = None) -> Iterator[BenchServer]:
    """Yields the server. It and its files are removed afterwards, unless they are kept in `kept` for the next run.

    Raises: EmbeddedDatabaseError.
    """
    if kept:
        kept.mkdir(parents=True, exist_ok=True)
    directory = kept or Path(tempfile.mkdtemp(prefix="backlog-bench-"))
    # the server may run as another user
    directory.chmod(0o711)
    server = Server(directory / "var", settings={**DURABLE, **ROOM})
    has_started = False
    try:
        has_started = server.ensure_running()
        yield BenchServer(server)
    finally:
        if kept and has_started:
            server.stop()
        elif not kept:
            server.destroy()
            shutil.rmtree(directory, ignore_errors=True)
