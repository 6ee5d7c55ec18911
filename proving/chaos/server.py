"""The storm's PostgreSQL: durable as in production, and restarted as after a crash."""

import os
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

from backupsched.embedded import Server
from backupsched.embedded.layout import DATABASE, PORT, USER
from backupsched.embedded.lock import START_SECONDS


class CrashingServer(Server):
    """The embedded server, with a restart that loses everything that was not committed."""

    def restart_as_after_a_crash(self) -> None:
        """Do `pg_ctl restart -m immediate`: no shutdown, then crash recovery. Raises: EmbeddedDatabaseError."""
        with self.locked():
            self._pg_ctl("restart", "-l", str(self.layout.log_file))

    def stop_at_once(self) -> None:
        """Stop it without a shutdown, as if its host lost power. It does not wait for the lock, which a stopped process
        that was about to start the server may hold. Raises: EmbeddedDatabaseError, also if it does not run.
        """
        self._pg_ctl("stop")

    def kill(self) -> None:
        """Send SIGKILL to its postmaster, if it runs."""
        if pid := self.status().pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def destroy(self) -> None:
        """Stop it without a checkpoint and delete all its files."""
        if self.status().running:
            self._pg_ctl("stop")
        super().destroy()

    def url(self) -> str:
        """Its DATABASE_URL, for programs that do not start the server themselves while it is down."""
        host = str(self.layout.socket_directory).replace("/", "%2F")
        return f"postgresql://{USER}:{self.password()}@{host}:{PORT}/{DATABASE}"

    def _pg_ctl(self, verb: str, *options: str) -> None:
        waiting = ("-m", "immediate", "-w", "-t", str(START_SECONDS))
        self.run("pg_ctl", "-D", str(self.layout.data), *options, *waiting, verb)


def make_directory() -> Path:
    """Make a directory that the server's user may traverse."""
    directory = Path(tempfile.mkdtemp(prefix="backupsched-chaos-"))
    directory.chmod(0o711)
    return directory


def remove_directory(directory: Path) -> None:
    """Remove a directory of `make_directory` with its contents."""
    shutil.rmtree(directory, ignore_errors=True)
