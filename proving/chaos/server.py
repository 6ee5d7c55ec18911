"""A PostgreSQL of the storm's own: durable as in production, and restarted as after a crash."""

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
    """The embedded server, with a restart that loses everything which was not committed."""

    def restart_as_after_a_crash(self) -> None:
        """`pg_ctl restart -m immediate`: no shutdown, then crash recovery. Raises: EmbeddedDatabaseError."""
        with self.locked():
            self._pg_ctl("restart", "-l", str(self.layout.log_file))

    def stop_at_once(self) -> None:
        """Stop it without a shutdown, as when its host loses power. Waits for no lock, which a stopped process may hold
        that was about to start it. Raises: EmbeddedDatabaseError, also if it does not run.
        """
        self._pg_ctl("stop")

    def kill(self) -> None:
        """SIGKILL its postmaster, if it runs."""
        if pid := self.status().pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def destroy(self) -> None:
        """Stop it without a checkpoint and delete all its files."""
        if self.status().running:
            self._pg_ctl("stop")
        super().destroy()

    def url(self) -> str:
        """Its DATABASE_URL, for what does not start the server itself when it is away."""
        host = str(self.layout.socket_directory).replace("/", "%2F")
        return f"postgresql://{USER}:{self.password()}@{host}:{PORT}/{DATABASE}"

    def _pg_ctl(self, verb: str, *options: str) -> None:
        waiting = ("-m", "immediate", "-w", "-t", str(START_SECONDS))
        self.run("pg_ctl", "-D", str(self.layout.data), *options, *waiting, verb)


def make_directory() -> Path:
    """A new directory that the server's own user may pass through."""
    directory = Path(tempfile.mkdtemp(prefix="backupsched-chaos-"))
    directory.chmod(0o711)
    return directory


def remove_directory(directory: Path) -> None:
    """Remove what `make_directory` has made, and all that is in it."""
    shutil.rmtree(directory, ignore_errors=True)
