"""A real MariaDB server of Debian, at a socket and on loopback, with a shop to back up."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from engines.base import SourceSpec
from external.processes.programs import find_mariadb_program
from tests.delivery.certificates import make_certificate
from tests.engines.peers import free_port, loopback_address, specification
from tests.programs import needed
from tests.waiting import eventually

PASSWORD = "p\"w'#; \\ü$"
ACCOUNT = """'backup'@'%' IDENTIFIED BY 'p"w\\'#; \\\\ü$'"""
SHOP = """
CREATE DATABASE shop CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
USE shop;
CREATE TABLE article (n INT PRIMARY KEY, words TEXT, bytes BLOB);
INSERT INTO article VALUES (1, 'x(''y), ("z\\\\', 'a'), (2, NULL, x'00ff27'), (3, 'line\nline\\r(', '');
CREATE TABLE `odd ``(na) me` (next INT AS (n + 1) STORED, n INT);
INSERT INTO `odd ``(na) me` (n) VALUES (1), (2);
CREATE TABLE empty (n INT);
CREATE TABLE old (n INT) ENGINE=MyISAM;
INSERT INTO old VALUES (7);
CREATE VIEW known AS SELECT n FROM article WHERE words IS NOT NULL;
CREATE TRIGGER numbered BEFORE INSERT ON article FOR EACH ROW SET NEW.words = IFNULL(NEW.words, '');
CREATE PROCEDURE tidy() DELETE FROM empty;
CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY DO CALL tidy();
"""


@dataclass
class MariadbServer:
    process: subprocess.Popen[bytes]
    socket: Path
    certificate: Path
    address: str
    port: int

    def sql(self, text: str, database: str = "", *options: str) -> str:
        argv = (find_mariadb_program("mariadb"), "--no-defaults", f"--socket={self.socket}", "--user=root", "--batch")
        argv += ("--skip-column-names", "--default-character-set=utf8mb4", "--binary-mode", *options, database)
        done = subprocess.run(argv, input=text.encode(), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode(errors="surrogateescape")

    def source(self, **fields: Any) -> SourceSpec:
        usual = {"path": "shop", "options": {"user": "backup"}, "port": self.port, "secret": PASSWORD}
        return specification("mariadb", self.address, **usual | fields)

    @contextlib.contextmanager
    def locked(self, table: str) -> Iterator[None]:
        """While another session has it to itself."""
        with self.session(f"LOCK TABLES {table} WRITE; SELECT 'done';") as answers:
            assert answers.readline() == b"done\n"
            yield

    @contextlib.contextmanager
    def session(self, text: str) -> Iterator[IO[bytes]]:
        """One that stays open behind these statements. Returns its answers."""
        argv = (find_mariadb_program("mariadb"), "--no-defaults", f"--socket={self.socket}", "--user=root", "-BNn")
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as session:
            assert session.stdin is not None
            assert session.stdout is not None
            session.stdin.write(f"{text}\n".encode())
            session.stdin.flush()
            try:
                yield session.stdout
            finally:
                session.kill()


def listens(path: Path) -> bool:
    """True if it can be called: its socket is there a moment before."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))
        return True
    return False


@contextlib.contextmanager
def mariadb_server(keys: Path) -> Iterator[MariadbServer]:
    """A server with a certificate, for which `keys` is an empty folder. It ends with the block."""
    install_db, _ = needed("mariadb-install-db", "mariadb-server-core"), needed("mariadb-dump", "mariadb-client")
    folder = Path(tempfile.mkdtemp())  # the path of a socket is short
    as_root = ("--user=root",) if os.geteuid() == 0 else ()
    data, place, address = folder / "data", folder / "socket", loopback_address()
    port = free_port(address)
    pem = make_certificate(keys, address)
    install = (install_db, "--no-defaults", f"--datadir={data}", "--skip-test-db", *as_root)
    subprocess.run((*install, "--auth-root-authentication-method=normal"), capture_output=True, check=True)
    serve = (
        find_mariadb_program("mariadbd"), "--no-defaults", f"--datadir={data}", f"--socket={place}",
        f"--bind-address={address}", f"--port={port}", f"--pid-file={folder}/pid", "--innodb-buffer-pool-size=16M",
        "--skip-log-bin",
        "--innodb-flush-log-at-trx-commit=0", "--innodb-use-native-aio=0", "--skip-name-resolve", *as_root,
        f"--ssl-cert={pem}", f"--ssl-key={pem}",
    )  # fmt: skip
    with (folder / "log").open("wb") as log, subprocess.Popen(serve, stdout=log, stderr=log) as process:
        try:
            eventually(lambda: listens(place))
            server = MariadbServer(process, place, pem, address, port)
            server.sql(f"{SHOP} CREATE USER {ACCOUNT}; GRANT ALL ON *.* TO 'backup'@'%' WITH GRANT OPTION;")
            yield server
        finally:
            process.kill()
            process.wait()
            shutil.rmtree(folder)
