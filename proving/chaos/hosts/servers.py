"""A primary, its streaming replica and a PgBouncer, each on a separate host."""

import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import psycopg

from backupsched.embedded import EmbeddedDatabaseError
from backupsched.embedded.layout import DATABASE, PORT, USER, Layout
from jobs.clock import boot_seconds
from proving.chaos.hosts.lan import NETWORK, LanHost
from proving.chaos.hosts.processes import HostProcesses
from proving.chaos.server import CrashingServer

DOORS = "".join(f"host {what} all {NETWORK} scram-sha-256\n" for what in ("all", "replication"))
SETTINGS = {"listen_addresses": "*", "max_connections": "300", "wal_receiver_timeout": "5s", "wal_sender_timeout": "5s"}
ARRIVAL_SECONDS, PAUSE_SECONDS = 60.0, 0.05
POOLER_PORT = 6432
POOLER = """
[databases]
* = host={address} port={port} user={user} password={password}
[pgbouncer]
listen_addr = *
listen_port = {listen}
auth_type = any
pool_mode = transaction
default_pool_size = 40
max_client_conn = 500
unix_socket_dir =
ignore_startup_parameters = extra_float_digits
"""


class ServerDidNot(Exception):
    """A server did not do in time what the storm needs; the message names it."""


class LanServer(CrashingServer):
    """The embedded server on `host`, reached by TCP from the other hosts and by its socket from the storm."""

    def __init__(self, directory: Path, host: LanHost) -> None:
        super().__init__(directory, SETTINGS)
        self.host = host

    def ensure_running(self) -> bool:
        """Start the server on its host, unless it runs. Returns True if it was started."""
        return self.host.do(super().ensure_running)

    def ask(self, question: str, *values: Any) -> Any:
        """Run a query. Returns the first column of the first row. Raises: psycopg.Error."""
        with self.connect(DATABASE) as there:
            row = there.execute(question, values).fetchone()
        return row and row[0]


class ReplicatedPair:
    """Two servers in `directory`. `fresh` makes `one` the primary and `other` its replica, from the data of `keep`."""

    def __init__(self, directory: Path, one: LanHost, other: LanHost) -> None:
        self.one, self.other = (LanServer(directory / host.name, host) for host in (one, other))
        self._kept = directory / "kept"

    def open_doors(self) -> None:
        """Allow connections from the other hosts."""
        with (self.one.layout.data / "pg_hba.conf").open("a") as rules:
            rules.write(DOORS)

    def keep(self) -> None:
        """Stop the primary and keep its data as the start of each fault."""
        self.one.stop()
        _copy(self.one.layout.data, self._kept)

    def fresh(self, *, synchronous: bool) -> None:
        """Start both servers with the kept data, whatever happened to them. `synchronous`: a COMMIT waits for both."""
        self.end()
        self.other._make_home()
        _copy(self._kept, self.one.layout.data)
        _copy(self._kept, self.other.layout.data)
        shutil.copy2(self.one.layout.password_file, self.other.layout.password_file)
        where = f"host={self.one.host.address} port={PORT} user={USER} password={self.one.password()}"
        _set(self.other.layout, primary_conninfo=f"{where} application_name=replica connect_timeout=3")
        (self.other.layout.data / "standby.signal").touch()
        self.one.ensure_running()
        self.other.ensure_running()
        _until("the replica streams", lambda: self.one.ask("SELECT count(*) FROM pg_stat_replication") == 1)
        if synchronous:
            with self.one.connect(DATABASE) as there:
                there.execute("ALTER SYSTEM SET synchronous_standby_names = 'replica'")
                there.execute("SELECT pg_reload_conf()")

    def make_read_only(self) -> None:
        """Let the old primary continue to answer but take no writes, and wait until the replica has all its data."""
        with self.one.connect(DATABASE) as there:
            there.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            there.execute("SELECT pg_reload_conf()")
        self.catch_up()

    def catch_up(self) -> None:
        """Wait until the replica has everything that is written by now."""
        written = self.one.ask("SELECT pg_current_wal_lsn()")
        arrived = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        _until("the replica has all", lambda: self.other.ask(arrived, written))

    def promote(self) -> None:
        """Make the replica the primary. Returns once it takes writes."""
        self.other.ask("SELECT pg_promote()")
        _until("the replica is promoted", lambda: not self.other.ask("SELECT pg_is_in_recovery()"))

    def end(self) -> None:
        """Stop running servers at once."""
        for server in (self.other, self.one):
            with suppress(EmbeddedDatabaseError):
                if server.status().running:
                    server.stop_at_once()

    def destroy(self) -> None:
        """End both and delete all files."""
        self.end()
        for server in (self.other, self.one):
            with suppress(EmbeddedDatabaseError):
                server.destroy()

    def url(self) -> str:
        """The URL of both by their sockets, so that the storm itself finds the primary in spite of the network."""
        return self._url(",".join(str(each.layout.socket_directory).replace("/", "%2F") for each in self._both()))

    def lan_url(self) -> str:
        """The URL of both by their addresses, by which the hosts find the primary."""
        return self._url(",".join(f"{each.host.address}:{PORT}" for each in self._both()))

    def _url(self, hosts: str) -> str:
        return f"postgresql://{USER}:{self.one.password()}@{hosts}/{DATABASE}?target_session_attrs=read-write"

    def _both(self) -> tuple[LanServer, LanServer]:
        return self.one, self.other


class Pooler:
    """A PgBouncer in transaction mode on `host`, in front of `server`."""

    def __init__(self, directory: Path, host: LanHost, server: LanServer, processes: HostProcesses) -> None:
        self._file, self._host, self._server, self._processes = directory / "pgbouncer.ini", host, server, processes

    def start(self) -> None:
        layout = self._server.layout
        self._file.write_text(
            POOLER.format(
                address=self._server.host.address,
                port=PORT,
                user=USER,
                password=self._server.password(),
                listen=POOLER_PORT,
            )
        )
        self._file.chmod(0o644)
        as_whom = ["--user", layout.account.pw_name] if layout.account else []
        self._processes.start("pooler", self._host, "pgbouncer", "--quiet", *as_whom, str(self._file))
        _until("PgBouncer answers", self._answers)

    def kill(self) -> None:
        """Send SIGKILL, which breaks its clients' connections."""
        self._processes.end("pooler", signal.SIGKILL)

    def url(self) -> str:
        return f"postgresql://{USER}@{self._host.address}:{POOLER_PORT}/{DATABASE}"

    def _answers(self) -> bool:
        def connects() -> bool:
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
            except psycopg.OperationalError:
                return False
            return True

        return self._host.do(connects)


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    command = ("cp", "-a", str(source), str(target))  # keeps the owner, the server's account
    subprocess.run(command, check=True)


def _set(layout: Layout, **settings: str) -> None:
    with (layout.data / "postgresql.auto.conf").open("a") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())


def _until(what: str, condition: Callable[[], object]) -> None:
    resting, deadline = Event(), boot_seconds() + ARRIVAL_SECONDS
    while not condition():
        if boot_seconds() > deadline:
            raise ServerDidNot(f"{what}: not within {ARRIVAL_SECONDS:.0f} s")
        resting.wait(PAUSE_SECONDS)
