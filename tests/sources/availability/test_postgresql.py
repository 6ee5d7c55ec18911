"""Does a database server answer? The test's own, and such as say or do other things."""

import base64
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from backups.specifications import specification_of
from engines.postgresql.engine import connection_environment, dump_arguments
from engines.restores.pg.connections import connected
from external.processes.programs import find_postgresql_program
from jobs.worker import database_threads
from sealing import stored_secrets
from sealing.lookup import store_secret
from sources.availability import probes
from sources.availability.probes import Answer, ask_now
from sources.models import Source
from sources.planning import AVAILABILITY
from tests.engines.peers import back_up, free_port, listening
from tests.sources.strangers import mute_host, talker
from tests.waiting import PATIENCE, eventually


def database(**fields: Any) -> Source:
    """The test's own server as a source."""
    server = connection.get_connection_params()
    usual = {
        "address": server["host"],
        "port": int(server.get("port") or 5432),
        "path": server["dbname"],
        "options": {"user": server["user"]},
        "secret": "env:BACKUP_SECRET_SHOP" if server.get("password") else "",
    }
    return Source(name="shop", kind="postgresql", **(usual | fields))


@pytest.mark.django_db
class TestDatabases:
    @pytest.fixture(autouse=True)
    def _secret(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BACKUP_SECRET_SHOP", connection.get_connection_params().get("password") or "")

    @pytest.mark.django_db(transaction=True)
    def test_a_stored_password_is_asked_of_the_database_in_a_thread_of_the_queue(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked_in: list[str] = []
        read = stored_secrets.read
        monkeypatch.setattr(
            stored_secrets, "read", lambda name: asked_in.append(threading.current_thread().name) or read(name)
        )
        secret = store_secret("shop", connection.get_connection_params()["password"])
        database_threads.open_for(AVAILABILITY)
        try:
            answer = ask_now(database(secret=secret), PATIENCE)
        finally:
            database_threads.close_for(AVAILABILITY)
        assert answer == Answer(True, f"{probes.place_of(database())} answered")
        assert asked_in == ["database-availability_0"]

    @pytest.mark.parametrize(
        "fields",
        [
            {"secret": ""},
            {"secret": "env:BACKUP_SECRET_NOT_SET"},
            {"options": {"user": "stranger"}},
            {"path": "no such database"},
        ],
    )
    def test_one_that_refuses_us_is_present(self, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        assert connection.get_connection_params().get("password"), "the test's server asks for a password"
        answer = ask_now(database(**fields), PATIENCE)
        assert answer.present
        assert "refused us" in answer.text
        monkeypatch.setenv("PGPASSWORD", connection.get_connection_params()["password"])
        assert "no password supplied" in ask_now(database(secret=""), PATIENCE).text, "that of the worker is not sent"

    @pytest.mark.parametrize(
        ("code", "message", "present"),
        [
            ("57P03", "the database system is starting up", False),
            ("53300", "sorry, too many clients already", False),
            ("53300", 'too many connections for role "backup"', False),
            ("28P01", 'password authentication failed for user "backup"', True),
        ],
    )
    def test_what_it_says_when_it_refuses_us_decides_whether_it_is_there(
        self, code: str, message: str, present: bool
    ) -> None:
        with server_that_says(code, message) as (address, port):
            answer = ask_now(database(address=address, port=port), PATIENCE)
        how = "refused us" if present else "did not answer"
        assert answer == Answer(present, f"{address}:{port} {how}: {message}")

    @pytest.mark.timeout(2 * PATIENCE)
    def test_one_that_is_gone_hangs_or_hangs_up_is_absent_and_what_is_no_database_is_not(self, tmp_path: Path) -> None:
        gone = free_port("127.0.0.1")
        for address in ("localhost", str(tmp_path)):
            assert not ask_now(database(address=address, port=gone), PATIENCE).present
        with talker(b"220 mail.example ESMTP\r\n") as (address, port):  # what is no database server: its engine says so
            assert "refused us" in ask_now(database(address=address, port=port), PATIENCE).text
        with talker(hang_up=True) as (address, port):
            assert not ask_now(database(address=address, port=port), PATIENCE).present
        with mute_host() as (address, port):
            answer = ask_now(database(address=address, port=port), 0.3)
        assert answer == Answer(False, f"{address}:{port} did not answer within 0.3 s")

    def test_one_that_sends_the_password_back_is_quoted_without_it(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("BACKUP_SECRET_SHOP", "swordfish-7-lanterns")
        encoded = base64.b64encode(b"backup:swordfish-7-lanterns").decode()
        for code in ("28P01", "57P03"):
            with server_that_says(code, f"swordfish-7-lanterns {encoded} {code}") as (address, port):
                answer = ask_now(database(address=address, port=port), PATIENCE)
                result = back_up(specification_of(database(address=address, port=port)), tmp_path / code)
            assert "***" in result.error
            assert "swordfish" not in repr(result)
            assert "***" in answer.text
            assert "swordfish" not in answer.text
            assert encoded[-12:-2] not in answer.text

    @pytest.mark.parametrize(("make", "why"), [(os.mkfifo, "is not a regular file"), (Path, "cannot be read")])
    def test_a_file_of_certificates_that_is_none_holds_up_no_other_question(
        self, make: Callable[[Path], object], why: str, tmp_path: Path
    ) -> None:
        """libpq opens it once a server offers TLS, in the thread of the event loop."""
        make(file := tmp_path / "ca.pem")
        options = {"user": "backup", "sslmode": "verify-ca", "sslrootcert": str(file)}
        with talker(b"S") as (address, port):
            answer = ask_now(database(address=address, port=port, options=options), PATIENCE)
        assert f"{address}:{port} was not asked: the file of certificates {file} {why}" in answer.text

    @pytest.mark.slow
    def test_a_password_that_is_cut_off_is_not_repeated_up_to_there(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("BACKUP_SECRET_SHOP", "swordfish-7-lanterns")
        for room in (30, 300, 500, 1_000):
            for code in ("28P01", "57P03"):
                message = "x " * (room // 2 - 8) + "swordfish-7-lanterns" * 2
                with server_that_says(code, message) as (address, port):
                    answer = ask_now(database(address=address, port=port), PATIENCE)
                    result = back_up(specification_of(database(address=address, port=port)), tmp_path / f"{code}{room}")
                assert "sword" not in answer.text + result.error, room

    def test_no_password_of_the_workers_account_is_sent(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Nor of its password file, to whichever server a source without a secret names."""
        (tmp_path / ".pgpass").write_text("*:*:*:*:of-another-program\n")
        (tmp_path / ".pgpass").chmod(0o600)
        monkeypatch.setenv("HOME", str(tmp_path))
        heard: list[bytes] = []
        with server_that_asks(3, heard) as (address, port):
            source = database(address=address, port=port, secret="")
            ask_now(source, PATIENCE)
            back_up(specification_of(source), tmp_path / "copy")
        eventually(lambda: len(heard) == 2)
        assert not any(b"of-another-program" in each for each in heard)

    @pytest.mark.slow
    @pytest.mark.parametrize("secret", ["", "env:BACKUP_SECRET_SHOP"], ids=["no secret", "secret"])
    def test_a_source_is_not_reached_by_the_certificate_or_ticket_of_the_workers_account(
        self, secret: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """A server may take either for any user that it names. libpq says so when it cannot read the first."""
        (tmp_path / ".postgresql").mkdir()
        (tmp_path / ".postgresql/postgresql.crt").write_text("of the account")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("BACKUP_SECRET_SHOP", "swordfish-7-lanterns")

        def offer_tls(client: socket.socket) -> None:
            client.recv(8)
            client.sendall(b"S")

        with listening(offer_tls) as (address, port):
            source = database(address=address, port=port, secret=secret)
            said = [ask_now(source, PATIENCE).text, back_up(specification_of(source), tmp_path / "copy").error]
            with pytest.raises(psycopg.OperationalError) as refused:
                connected(specification_of(source))
        assert not [each for each in (*said, str(refused.value)) if "postgresql.crt" in each]
        heard: list[bytes] = []
        with server_that_asks(7, heard) as (address, port):  # for a ticket
            source = database(address=address, port=port, secret=secret)
            answer = ask_now(source, PATIENCE)
            with pytest.raises(psycopg.OperationalError, match="authentication method requirement"):
                connected(specification_of(source))
            back_up(specification_of(source), tmp_path / "copy")
        assert not any(heard), answer

    @pytest.mark.parametrize("request_code", [3, 5], ids=["cleartext", "md5"])
    def test_one_that_asks_for_a_password_that_it_could_read_gets_none(
        self, request_code: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("BACKUP_SECRET_SHOP", "swordfish-7-lanterns")
        heard: list[bytes] = []
        with server_that_asks(request_code, heard) as (address, port):
            answer = ask_now(database(address=address, port=port), PATIENCE)
            dump = connection_environment(specification_of(database(address=address, port=port)), 5)
            subprocess.run(
                [find_postgresql_program("pg_dump"), *dump_arguments(Path(os.devnull), specification_of(database()))],
                env=dump, check=False, capture_output=True, timeout=60,
            )  # fmt: skip
        eventually(lambda: len(heard) == 2)
        assert answer.present
        assert not any(b"swordfish" in each or b"md5" in each for each in heard)


def server_that_says(code: str, message: str) -> AbstractContextManager[tuple[str, int]]:
    """A PostgreSQL server that refuses every connection with an error. Yields address and port."""
    fields = b"".join(key + value.encode() + b"\0" for key, value in ((b"S", "FATAL"), (b"C", code), (b"M", message)))
    error = b"E" + (len(fields) + 5).to_bytes(4, "big") + fields + b"\0"

    def refuse(client: socket.socket) -> None:
        while (request := client.recv(1024)) and request[4:8] == (80877103).to_bytes(4, "big"):
            client.sendall(b"N")  # no TLS here
        client.sendall(error)

    return listening(refuse)


def server_that_asks(request_code: int, heard: list[bytes]) -> AbstractContextManager[tuple[str, int]]:
    """A PostgreSQL server that asks for a password in clear (3) or as MD5 (5); `heard` gets what it is sent then."""
    salt = b"salt" if request_code == 5 else b""
    question = b"R" + struct.pack("!ii", 8 + len(salt), request_code) + salt

    def serve(client: socket.socket) -> None:
        (length,) = struct.unpack("!i", client.recv(4))
        begun = client.recv(length - 4)
        if begun[:4] == struct.pack("!i", 80877103):  # it asks for TLS first
            client.sendall(b"N")
            (length,) = struct.unpack("!i", client.recv(4))
            client.recv(length - 4)
        client.sendall(question)
        heard.append(client.recv(1000))

    return listening(serve)
