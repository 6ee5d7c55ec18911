"""Restores a dump into a MariaDB server of its own, which lives for that only, and counts it table by table.

It loads no plugin, reads and writes no file for a query, and starts no event. It has one account besides the system's
locked one: the one that restores, which has one database. `SET USER` lets it make what belongs to accounts that are
not here, and there is none whose rights it could take by that.
"""

import signal
from collections.abc import Callable
from pathlib import Path

from sources.engines.limits import Space
from sources.engines.mariadb.engine import CLIENT, DATABASE, NO_HOME, number_of
from sources.engines.mariadb.reading import read
from sources.processes.programs import find_mariadb_program
from sources.processes.runner import Ended
from sources.restores.scratch import NAME, Database, Scratch, Server
from sources.storage.store import Stopped, Store

SOCKET, NOTHING = "socket", "nothing"
SETTINGS = (
    "--skip-networking", f"--socket={SOCKET}", "--pid-file=pid", "--skip-symbolic-links", "--local-infile=0",
    "--event-scheduler=OFF", "--skip-log-bin", "--skip-slave-start", "--performance-schema=OFF",
    "--max-connections=10", "--max-allowed-packet=1G", "--character-set-server=utf8mb4",
    "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0",
    "--innodb-use-native-aio=0",
)  # fmt: skip
FIRST = (
    f"CREATE DATABASE {NAME}",
    f"CREATE USER {NAME}@localhost IDENTIFIED BY ''",
    f"GRANT ALL ON {NAME}.* TO {NAME}@localhost",
    f"GRANT SET USER ON *.* TO {NAME}@localhost",
    f"DELETE FROM mysql.global_priv WHERE User NOT IN ('{NAME}', 'mariadb.sys')",
    "FLUSH PRIVILEGES",
)
NOT_HERE = frozenset({1044, 1049, 1142, 1146, 1227, 1356, 1370, 1449, 4031})
"""Of rights, accounts and other databases that a scratch server does not have. A table that lacks is counted anyway."""


def restored(files: Path, folder: Path, scratch: Scratch, space: Space, store: Store) -> Database:
    """Restore the dump that lies in `files`, with a server in `folder`. Raises: StorageFailed, Stopped, OSError,
    ProgramMissing."""
    server = _Server(folder / "data", scratch, space, store)

    def alive() -> None:
        if store.stop.is_set():
            raise Stopped

    with (files / DATABASE).open("rb") as dump:
        expected = read(dump, alive).rows
    with server.running(server.made(), signal.SIGTERM), (files / DATABASE).open("rb") as dump:
        return server.count(server.load(dump.fileno()), expected)


class _Server(Server):
    count_rows = "SELECT {}, COUNT(*) FROM {};"

    def environment(self) -> dict[str, str]:
        return NO_HOME

    def made(self) -> tuple[str, ...]:
        """Returns its command."""
        self.own_folder(nothing := self.data.with_name(NOTHING))
        self.make(
            find_mariadb_program("mariadb-install-db"), "--no-defaults", f"--datadir={self.data}", "--skip-test-db",
            "--skip-name-resolve", "--auth-root-authentication-method=normal", f"--tmpdir={self.data}",
        )  # fmt: skip
        first = self.data / "first.sql"
        first.write_text("".join(f"{each};\n" for each in FIRST))
        first.chmod(0o644)
        return (
            find_mariadb_program("mariadbd"), "--no-defaults", f"--datadir={self.data}", *SETTINGS,
            f"--init-file={first}", f"--plugin-dir={nothing}", f"--secure-file-priv={nothing}", f"--tmpdir={self.data}",
        )  # fmt: skip

    def load(self, dump: int) -> Database:
        errors = list[str]()
        ended = self._client(b"", lambda line: errors.append(line) if line.startswith("ERROR ") else None, reads=dump)
        return self.judge(ended, errors, lambda error: number_of(error) in NOT_HERE)

    def ask(self, statements: list[str], on_line: Callable[[str], None] = lambda line: None) -> Ended:
        return self._client("\n".join(statements).encode(errors="surrogateescape"), on_line)

    def _client(self, given: bytes, on_line: Callable[[str], None], reads: int | None = None) -> Ended:
        where = f"--socket={self.socket_folder()}/{SOCKET}"
        options = ("--no-defaults", "--protocol=socket", where, f"--user={NAME}", *CLIENT, "--force", NAME)
        return self.run((find_mariadb_program("mariadb"), *options), on_line, given=given, reads=reads)
