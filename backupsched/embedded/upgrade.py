"""The data of the embedded server, moved to a newer major version by dump and restore.

    1. the old server runs, at a separate socket, so that nothing else changes the data; its database is dumped
    2. a new server is made in a separate folder, with the same password; the dump is restored, rows are counted
    3. it is stopped, and its data are renamed `data.upgraded`: from here on they are whole
    4. `data` is renamed `data.of-15`, and `data.upgraded` becomes `data`

Killed before step 4, the next run begins again: the old data were only read. Killed within it there are no `data`, and
the next user of the server finishes it (`Server.finish_upgrade`). The old data stay until they are deleted by hand.
"""

import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import psycopg
from psycopg import sql

from backupsched.embedded.binaries import installed_bin
from backupsched.embedded.layout import DATABASE, OTHERWISE, PORT, USER, EmbeddedDatabaseError, Layout
from backupsched.embedded.server import Server
from engines.restores.playing import without_unknown
from external.processes.programs import postgresql_servers

PREFIX = "upgrade-"
"""The folder of each run has a unique name, since a killed run's programs may still write into theirs."""

TABLES = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname !~ '^(pg_|information_schema)' ORDER BY 1, 2"
OTHERS = """
SELECT 'the database ' || datname FROM pg_database WHERE NOT datistemplate AND datname NOT IN ('postgres', %(database)s)
 UNION ALL
SELECT 'the role ' || rolname FROM pg_roles WHERE rolname !~ '^pg_' AND rolname <> %(user)s"""

IN_ONE = ("--set=ON_ERROR_STOP=1", "--single-transaction")
LAST_LINES = 3

Say = Callable[[str], None]
Take = Callable[[IO[bytes]], None]


class StagedLayout(Layout):
    """The places of a private server: its `data`, and a socket next to the usual one."""

    def __init__(self, layout: Layout, data: Path) -> None:
        super().__init__(layout.var_dir)
        self._data, self._sockets = data, layout.socket_directory.with_name(f"{layout.socket_directory.name}.up")

    @property
    def data(self) -> Path:
        return self._data

    @property
    def socket_directory(self) -> Path:
        return self._sockets


def upgrade(var_dir: Path, programs: Path | None, say: Say) -> Path | None:
    """Move the data to the installed version. `programs`: the folder with those of the version that made the data, or
    this host's if None. Returns the new place of the old data, or None if there was nothing to do. Raises:
    EmbeddedDatabaseError.
    """
    server = Server(var_dir)
    layout = server.layout
    if not layout.home.exists():
        raise EmbeddedDatabaseError(f"{layout.home}: no embedded database is there, so there is nothing to upgrade")
    with server.locked():
        server.finish_upgrade()
        if not layout.data.exists():
            raise EmbeddedDatabaseError(f"{layout.data}: no embedded database is there, so there is nothing to upgrade")
        _remove_leftovers(server)
        before, now = _made_by(layout), _version(server)
        if before == now:
            return None
        if before > now:
            raise EmbeddedDatabaseError(f"{layout.data} is of PostgreSQL {before}, newer than the installed {now}")
        old = Server(var_dir, programs=_programs(before, programs))
        if (found := _version(old)) != before:
            raise EmbeddedDatabaseError(f"{programs} has PostgreSQL {found}; the data were made by {before}")
        _check_room(layout)
        server.stop_if_running()  # one that was started before the upgrade of the package
        folder = layout.home / f"{PREFIX}{secrets.token_hex(4)}"
        try:
            _move(server, old, folder, say)
            (folder / "data").rename(layout.upgraded)
            kept = _free_name(layout.home / f"data.of-{before}")
            layout.data.rename(kept)
            server.finish_upgrade()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return kept


def _move(server: Server, old: Server, folder: Path, say: Say) -> None:
    """Make the new data in `folder`/data. Raises: EmbeddedDatabaseError."""
    layout = server.layout
    try:
        folder.mkdir(mode=0o700)
        server.give(folder)
        old.layout = StagedLayout(layout, layout.data)
        say(f"dumping the database with PostgreSQL {_version(old)}")
        with _running(old):
            _refuse_others(old)
            counts = _counts(old)
            _dump(old, folder / "dump.sql")
        _check_room(layout)
        new = Server(layout.var_dir)
        new.layout = StagedLayout(layout, folder / "data")
        say(f"restoring it with PostgreSQL {_version(new)}: {sum(counts.values()):,} rows of {len(counts)} tables")
        _restore(new, folder, counts)
    except (OSError, psycopg.Error) as error:
        why = f"{error.strerror}: {error.filename or folder}" if isinstance(error, OSError) else str(error).strip()
        raise EmbeddedDatabaseError(f"the data could not be moved, and all is as before ({why})") from error


def _remove_leftovers(server: Server) -> None:
    """Stop and remove servers and folders of killed runs. Data that were whole, and not yet in place, are made again,
    since the old version may have been in use since.
    """
    layout = server.layout
    for folder in layout.home.glob(f"{PREFIX}*"):
        left = Server(layout.var_dir)
        left.layout = StagedLayout(layout, folder / "data")
        left.stop_if_running()
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(layout.upgraded, ignore_errors=True)


def _made_by(layout: Layout) -> int:
    try:
        return int((layout.data / "PG_VERSION").read_text())
    except (OSError, ValueError) as error:
        raise EmbeddedDatabaseError(f"{layout.data} is not a PostgreSQL data directory ({error})") from error


def _version(server: Server) -> int:
    try:
        return int(server.run("postgres", "--version").split()[2].split(".")[0])
    except (OSError, ValueError, IndexError) as error:
        raise EmbeddedDatabaseError(f"this is not a folder of PostgreSQL's programs: {error}") from error


def _programs(version: int, named: Path | None) -> Path:
    found = named or postgresql_servers().get(version)
    if found is None:
        raise EmbeddedDatabaseError(
            f"the data were made by PostgreSQL {version}, whose programs are needed once more: install them (Debian: "
            f"`apt install postgresql-{version}`), or name their folder, such as /usr/lib/postgresql/{version}/bin: "
            "`database upgrade --old-programs FOLDER`"
        )
    return found


def _check_room(layout: Layout) -> None:
    taken = size_of(layout.data)
    if shutil.disk_usage(layout.home).free < taken:
        raise EmbeddedDatabaseError(
            f"the disk of {layout.home} has no room for the data a second time ({taken >> 20:,} MiB). Make room, "
            f"{OTHERWISE}"
        )


def size_of(folder: Path) -> int:
    """The bytes of all files below it, without those that a server removes in the meantime."""
    found = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                found += Path(place, name).lstat().st_size
    return found


@contextmanager
def _running(server: Server) -> Iterator[None]:
    server.start()
    try:
        yield
    finally:
        server.stop_if_running()


def _refuse_others(old: Server) -> None:
    with old.connect("postgres") as connection:
        others = [name for (name,) in connection.execute(OTHERS, {"database": DATABASE, "user": USER})]
    if others:
        raise EmbeddedDatabaseError(
            f"only the database {DATABASE} is moved, and the server has more: {', '.join(others)}. Dump and remove "
            "these first"
        )


def _counts(server: Server) -> dict[str, int]:
    """Rows by table."""
    with server.connect(DATABASE) as connection:
        tables = [sql.Identifier(*names) for names in connection.execute(TABLES)]
        return {
            each.as_string(connection): int(
                connection.execute(sql.SQL("SELECT count(*) FROM {}").format(each)).fetchone()[0]  # type: ignore[index]
            )
            for each in tables
        }


def _dump(old: Server, file: Path) -> None:
    """Dump by the newer program, as its makers advise, without features that only the old version has."""
    with file.open("wb") as sql_file:
        _client(old, "pg_dump", DATABASE, take=lambda lines: sql_file.writelines(without_unknown(lines)))


def _restore(new: Server, folder: Path, counts: dict[str, int]) -> None:
    password_file = folder / "password"
    password_file.touch(mode=0o600)
    password_file.write_text(new.password() or "")
    new.give(password_file)
    new.initdb(folder / "data", password_file)
    with _running(new):
        new.create_database()
        with (folder / "dump.sql").open("rb") as dump:
            _client(new, "psql", "--quiet", "--no-psqlrc", *IN_ONE, f"--dbname={DATABASE}", stdin=dump)
        if (found := _counts(new)) != counts:
            differ = sorted(name for name in counts.keys() | found.keys() if counts.get(name) != found.get(name))
            raise EmbeddedDatabaseError(f"after the restore rows are missing in {', '.join(differ)}: all is as before")
        with new.connect(DATABASE) as connection:
            connection.execute("ANALYZE")


def _client(
    server: Server, program: str, *arguments: str, stdin: IO[bytes] | None = None, take: Take | None = None
) -> None:
    """Run one of PostgreSQL's clients; `take` gets its output. Raises: EmbeddedDatabaseError with the end of its
    messages; the exceptions of `take`.
    """
    at = f"--host={server.layout.socket_directory}", f"--port={PORT}", f"--username={USER}", "--no-password"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    with TemporaryFile() as errors:
        with subprocess.Popen(
            [installed_bin() / program, *at, *arguments],
            env={**kept, "LC_ALL": "C", "PGPASSWORD": server.password() or ""},
            stdin=stdin or subprocess.DEVNULL,
            stdout=subprocess.PIPE if take else subprocess.DEVNULL,
            stderr=errors,
        ) as process:
            if take and process.stdout:
                take(process.stdout)
        errors.seek(0)
        if process.returncode:
            lines = errors.read().decode(errors="replace").strip().splitlines()[-LAST_LINES:]
            raise EmbeddedDatabaseError(f"{program} failed, and all is as before: {' '.join(lines)}")


def _free_name(wanted: Path) -> Path:
    return next(
        each
        for each in (wanted, *(wanted.with_name(f"{wanted.name}-{number}") for number in range(2, 1000)))
        if not each.exists()
    )
