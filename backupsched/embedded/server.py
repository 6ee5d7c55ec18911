"""The embedded server: created at its first start, shared by all processes, found again by later ones.

Every process that cannot connect calls `ensure_running`; a file lock lets one of them start the server. It outlives
them, until `manage.py database stop`.
"""

import os
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from backupsched.embedded.binaries import make_passable, server_bin
from backupsched.embedded.layout import (
    DATABASE,
    OTHERWISE,
    PORT,
    USER,
    EmbeddedDatabaseAway,
    EmbeddedDatabaseError,
    Layout,
)
from backupsched.embedded.lock import START_SECONDS, held

CONNECT_SECONDS = 5
ROOM_TO_START = 2**20
"""Bytes. With less, PostgreSQL writes neither its process id nor its log."""
SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "unix_socket_permissions": "0700",
    **dict.fromkeys(("timezone", "log_timezone"), "UTC"),
}


@dataclass(frozen=True)
class ServerStatus:
    """The state of the server: whether it runs, and where; `pid` is the postmaster's."""

    running: bool
    pid: int | None
    data: Path
    socket_directory: Path
    log_file: Path


class Server:
    """The server of `var_dir`. `settings` are added to postgresql.conf's; `programs`: another version's, a folder."""

    def __init__(
        self, var_dir: Path, settings: Mapping[str, str] | None = None, *, programs: Path | None = None
    ) -> None:
        self.layout = Layout(var_dir)
        self.settings = {**SETTINGS, **(settings or {})}
        self._programs = programs

    def ensure_running(self) -> bool:
        """Start the server unless it runs; create it the first time. Returns True if this call started it. Raises:
        EmbeddedDatabaseError, which contains advice; EmbeddedDatabaseAway for passing problems.
        """
        self._make_home()
        try:
            with self.locked():
                if self.layout.socket_in_use not in (None, self.layout.socket_directory.resolve()):
                    self.stop_if_running()  # an upgrade that was ended left it where no other process finds it
                if self.status().running:
                    self.create_database()  # a first start may have been cut off before it
                    return False
                self.finish_upgrade()
                if not self.layout.data.exists():
                    self._create()
                self._check_version()
                self.start()
                self.create_database()
                return True
        except OSError as error:
            why = f"the embedded PostgreSQL in {self.layout.home} cannot start ({error.strerror}: {error.filename})"
            raise EmbeddedDatabaseAway(self._full_disk() or f"{why}. Make it writable, {OTHERWISE}") from error

    def finish_upgrade(self) -> None:
        """Put the data of an upgrade in their place: it was killed just before."""
        if self.layout.upgraded.exists() and not self.layout.data.exists():
            self.layout.upgraded.rename(self.layout.data)

    def stop(self) -> bool:
        """Stop the server: clients are disconnected, nothing committed is lost. Returns whether it ran."""
        if not self.layout.home.exists():
            return False
        with self.locked():
            return self.stop_if_running()

    def stop_if_running(self) -> bool:
        """The same, for a caller that holds the lock."""
        if not self.status().running:
            return False
        self.run("pg_ctl", "-D", str(self.layout.data), "-m", "fast", "-w", "-t", str(START_SECONDS), "stop")
        return True

    def status(self) -> ServerStatus:
        pid, command = self._process() or (None, b"")
        if os.fsencode(self.layout.data) not in command:
            pid = None
        return ServerStatus(pid is not None, pid, self.layout.data, self.layout.socket_directory, self.layout.log_file)

    def password(self) -> str | None:
        """The password of the database user; None before the server was created."""
        try:
            return self.layout.password_file.read_text()
        except FileNotFoundError:
            return None

    def connect(self, database: str) -> psycopg.Connection[Any]:
        """A connection in autocommit mode. Raises: psycopg.OperationalError."""
        directory, password = str(self.layout.socket_directory), self.password()
        return psycopg.connect(
            host=directory, port=PORT, user=USER, password=password, dbname=database, autocommit=True,
            connect_timeout=CONNECT_SECONDS,
        )  # fmt: skip

    def destroy(self) -> None:
        """Stop the server and delete all its files: for tests."""
        self.stop()
        shutil.rmtree(self.layout.home, ignore_errors=True)
        shutil.rmtree(self.layout.socket_directory, ignore_errors=True)

    def _make_home(self) -> None:
        layout = self.layout
        try:
            if layout.var_dir not in layout.home.parents:  # else it is made passable with the rest of the way
                layout.var_dir.mkdir(parents=True, exist_ok=True)
            make_passable(layout.home)
            link = layout.var_dir / "postgres"
            if layout.home != link and not link.is_symlink():
                with suppress(FileExistsError):  # another process was faster
                    link.symlink_to(layout.home)
            if not os.access(layout.home, os.W_OK):
                raise PermissionError(13, "Permission denied")
        except OSError as error:
            raise EmbeddedDatabaseError(
                f"cannot keep the embedded database of {layout.var_dir} in {layout.home} ({error.strerror}: "
                f"{error.filename or layout.home}). Make it writable, "
                f"name another directory in BACKUPSCHED_VAR, {OTHERWISE}"
            ) from error

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock of the server's files. Raises: EmbeddedDatabaseAway if another process does not release it."""
        return held(self.layout.lock_file)

    def _process(self) -> tuple[int, bytes] | None:
        """The living process that postmaster.pid names, and its command line: after a crash it may be any program."""
        try:
            pid = int((self.layout.data / "postmaster.pid").read_text().split("\n")[0])
            os.kill(pid, 0)
            if not Path("/proc/self").exists():  # its command line cannot be known
                return pid, b"postgres " + os.fsencode(self.layout.data)
            return pid, Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None

    def _create(self) -> None:
        """Run initdb. The data directory appears under its name whole, by a rename."""
        layout = self.layout
        draft = layout.home / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        password = secrets.token_urlsafe(24)
        password_file = layout.home / "password.new"
        try:
            draft.mkdir(mode=0o700)
            self.give(draft)
            password_file.touch(mode=0o600)
            password_file.write_text(password)
            self.give(password_file)
            self.initdb(draft, password_file)
            if layout.account is not None:
                os.chown(password_file, 0, 0)
            password_file.rename(layout.password_file)
            draft.rename(layout.data)
        except OSError as error:
            raise EmbeddedDatabaseError(
                f"cannot create the embedded database in {layout.data} ({error.strerror}). "
                f"Make room or make it writable, {OTHERWISE}"
            ) from error
        finally:
            password_file.unlink(missing_ok=True)
            shutil.rmtree(draft, ignore_errors=True)

    def initdb(self, folder: Path, password_file: Path) -> None:
        """Raises: EmbeddedDatabaseError."""
        self.run(
            "initdb", "--pgdata", str(folder), "--username", USER, "--pwfile", str(password_file), "--encoding",
            "UTF8", "--locale", "C.UTF-8", "--auth", "scram-sha-256", "--no-instructions",
        )  # fmt: skip

    def _check_version(self) -> None:
        data = self.layout.data
        program = self.run("postgres", "--version").split()[-1].split(".")[0]
        if not (data / "PG_VERSION").exists():
            raise EmbeddedDatabaseError(
                f"{data} is not a PostgreSQL data directory (it has no PG_VERSION). Move it away, {OTHERWISE}"
            )
        if (found := (data / "PG_VERSION").read_text().strip()) != program:
            raise EmbeddedDatabaseError(
                f"{data} was made by PostgreSQL {found}, but the embedded server is version {program}. "
                f"`database upgrade` moves the data, with the programs of {found} (docs/upgrading.md); "
                f"or move the directory away to start afresh, {OTHERWISE}"
            )

    def start(self) -> None:
        layout = self.layout
        self._make_socket_directory()
        layout.log_file.touch(mode=0o600)
        self.give(layout.log_file)
        if b"postgres" not in (self._process() or (0, b""))[1]:
            (layout.data / "postmaster.pid").unlink(missing_ok=True)  # else another program's number stops PostgreSQL
        options = ["-k", str(layout.socket_directory), "-p", str(PORT)]
        options += [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        self.run(
            "pg_ctl", "-D", str(layout.data), "-l", str(layout.log_file), "-w", "-t", str(START_SECONDS),
            "-o", shlex.join(options), "start",
        )  # fmt: skip

    def _make_socket_directory(self) -> None:
        directory = self.layout.socket_directory
        directory.mkdir(mode=0o700, exist_ok=True)
        owner = self.layout.account.pw_uid if self.layout.account else os.geteuid()
        if directory.is_symlink() or directory.lstat().st_uid not in (owner, os.geteuid()):
            raise EmbeddedDatabaseError(
                f"{directory}, the directory for the database's socket, belongs to another user. Remove it, {OTHERWISE}"
            )
        directory.chmod(0o700)
        self.give(directory)

    def create_database(self) -> None:
        with self.connect("postgres") as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))

    def give(self, path: Path) -> None:
        """Let the server's user own `path`."""
        if self.layout.account is not None:
            os.chown(path, self.layout.account.pw_uid, self.layout.account.pw_gid)

    def run(self, program: str, *arguments: str) -> str:
        """Run one of the server's programs as its user. Returns its output.

        Raises: EmbeddedDatabaseError; EmbeddedDatabaseAway when it was pg_ctl.
        """
        account = self.layout.account
        as_user: Any = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        # the server that pg_ctl starts would hold a pipe open; of the others a full disk would swallow the answer
        output = (self.layout.home / f"{program}.out").open("w+") if program == "pg_ctl" else None
        result = subprocess.run(
            [(self._programs or server_bin(self.layout)) / program, *arguments],
            cwd=self.layout.home,
            env={**kept, "LC_ALL": "C"}
            | ({"PGPASSWORD": self.password() or ""} if program in ("pg_dump", "pg_restore") else {}),
            stdin=subprocess.DEVNULL,
            stdout=output or subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **as_user,
        )
        text = result.stdout or ""
        if output:
            with output:
                output.seek(0)
                text = output.read()
        if result.returncode != 0:
            raise (EmbeddedDatabaseAway if program == "pg_ctl" else EmbeddedDatabaseError)(self._explain(program, text))
        return text

    def _explain(self, program: str, text: str) -> str:
        log = ""
        with suppress(OSError):
            log = self.layout.log_file.read_text(errors="replace") if program == "pg_ctl" else ""
        signs = ("No space left on device", "Check free disk space")
        if full := self._full_disk(any(sign in text + log[-4000:] for sign in signs)):
            return full
        lines = (text + log).strip().splitlines()[-8:]
        fatal = " ".join(each for each in lines if "FATAL" in each)  # in the first line: some messages end there
        told = "\n    ".join([f"the embedded PostgreSQL in {self.layout.home} failed at {program}: {fatal}", *lines])
        return f"{told}\nSee {self.layout.log_file}, {OTHERWISE}"

    def _full_disk(self, says_so: bool = False) -> str:
        """A message about a full disk, which keeps programs from writing one; empty if the disk has room."""
        full = f"the disk of {self.layout.home} is full: the embedded database cannot start. Make room, {OTHERWISE}"
        return full if says_so or shutil.disk_usage(self.layout.home).free < ROOM_TO_START else ""
