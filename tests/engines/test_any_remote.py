"""Sources of the kind rclone: any storage that it reaches, by its own settings. Real servers, of rclone's own."""

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from engines.base import SourceSpec, Verdict
from external.network import gate
from sources.availability.probes import ask_now
from sources.models import Source
from storage.places import remotes
from storage.places.servers import reached
from storage.points.store import Store
from tests.engines.peers import PASSWORD, USER, back_up, held, loopback_address, serving, specification, write_files
from tests.engines.samba_peer import samba
from tests.waiting import PATIENCE

FILES = {"a.txt": "alpha", "sub/ü.txt": "umlaut", "big.bin": "x" * 300_000}
ACCOUNT = (f"--user={USER}", f"--pass={PASSWORD}")


def remote(path: str = "", secret: str = PASSWORD, **settings: Any) -> SourceSpec:
    return specification("rclone", options=settings, secret=None, secrets={"pass": secret}, path=path)


def answer(**settings: Any) -> tuple[bool, str]:
    found = ask_now(Source(kind="rclone", options=settings), PATIENCE)
    return found.present, found.text


@pytest.mark.slow
def test_an_ftp_server_and_a_webdav_share_are_copied_byte_for_byte_and_a_fault_is_put_in_words(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", **FILES)
    with serving("ftp", files, *ACCOUNT) as (address, port):
        settings = {"type": "ftp", "host": address, "port": port, "user": USER}
        result = back_up(remote(**settings), tmp_path / "copy")
        assert result.verdict is Verdict.SUCCEEDED, result.error
        assert held(tmp_path / "copy") == FILES
        assert answer(**settings) == (True, f"{address}:{port} answered")
        store = Store(remotes.location_of("vault", settings, {"pass": PASSWORD}, None), threading.Event())
        store.put(files / "a.txt", "a.txt")
        assert store.names("") == ["a.txt"]
        faults = (
            (remote(**settings, secret="another"), Verdict.SOURCE_FAILED, "refused the credentials"),
            (remote(**settings, path="no/such"), Verdict.SOURCE_FAILED, "directory not found"),
            (remote(**settings, concurrency="many"), Verdict.SOURCE_FAILED, 'parsing "many"'),
        )
        for source, verdict, text in faults:
            result = back_up(source, tmp_path / "copy")
            assert (result.verdict, text in result.error) == (verdict, True), result
    result = back_up(remote(**settings), tmp_path / "copy")
    assert result.verdict is Verdict.UNAVAILABLE, result
    assert not answer(**settings)[0]
    with serving("webdav", files, *ACCOUNT) as (address, port):
        settings = {"type": "webdav", "url": f"http://{address}:{port}", "vendor": "other", "user": USER}
        assert back_up(remote(**settings), tmp_path / "another").verdict is Verdict.SUCCEEDED
        assert answer(**settings) == (True, f"{address}:{port} answered")
    assert held(tmp_path / "copy") == FILES
    assert held(tmp_path / "another") == FILES | {"vault/a.txt": "alpha"}


@pytest.mark.slow
def test_a_samba_share_is_copied_byte_for_byte(tmp_path: Path) -> None:
    assert answer(type="drive") == (True, "the drive service is asked by its engine")
    with samba(write_files(tmp_path / "files", **FILES)) as settings:
        result = back_up(remote("files", **settings), tmp_path / "copy")
        assert result.verdict is Verdict.SUCCEEDED, result.error
        assert held(tmp_path / "copy") == FILES
        assert answer(**settings) == (True, f"{settings['host']}:{settings['port']} answered")
        for source, text in (
            (remote("none", **settings), "share name cannot be found"),
            (remote("files", "another", **settings), "refused the credentials"),
        ):
            result = back_up(source, tmp_path / "copy")
            assert (result.verdict, text in result.error) == (Verdict.SOURCE_FAILED, True), result
    assert held(tmp_path / "copy") == FILES


def test_the_data_of_ftp_come_from_its_server_at_any_port_and_from_no_other(tmp_path: Path) -> None:
    """A server may say where its data are, as PASV does."""
    own, other = loopback_address(), "127.1.2.3"
    with (
        socket.create_server((own, 0)) as control,
        socket.create_server((own, 0)) as data,
        socket.create_server((other, 0)) as elsewhere,
        reached(remotes.location_of("", {"type": "ftp", "host": own}, {}, None)) as of_repository,
        gate.gate_to([(own, gate.ANY_PORT)], PATIENCE) as of_source,
    ):
        for proxy in (of_source, of_repository["RCLONE_CONFIG_BASE_SOCKS_PROXY"]):
            found = [asked(proxy, *each.getsockname()) for each in (control, data, elsewhere)]
            assert found == [gate.DONE, gate.DONE, gate.NOT_ALLOWED]


def asked(proxy: str, host: str, port: int) -> int:
    """The gate's reply to a request for a connection."""
    where, _, at = proxy.removeprefix("socks5://").partition(":")
    with socket.create_connection((where, int(at)), PATIENCE) as connection:
        connection.sendall(b"\5\1\0" + b"\5\1\0\1" + socket.inet_aton(host) + port.to_bytes(2, "big"))
        return connection.makefile("rb").read(4)[3]
