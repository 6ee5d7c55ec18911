"""Link-local addresses, metadata services and closed loopback: no name leads a worker there, in no program.

`2130706433` is a name to us and 127.0.0.1 to the resolver; `2852039166` is 169.254.169.254. So no DNS server is needed.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from backups import repository_orders
from engines.base import RunEnded, SourceSpec, Verdict
from engines.imap.session import session_with
from engines.mariadb.connection import option_file
from engines.postgresql.engine import connection_environment
from engines.rclone.remotes import way_to
from external import special_addresses
from external.network.gate import DONE, GUARDED
from sources.availability.host_keys import fetch_now
from sources.availability.probes import ask_now
from sources.models import Source
from storage.places import remotes
from storage.places.location import of_directory
from storage.places.servers import reached
from tests.engines.peers import back_up, specification, task_for
from tests.waiting import PATIENCE

NAME, METADATA = "2130706433", "2852039166"
HERE = "127.0.0.1"


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(special_addresses, "loopback_is_open", False)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A service of this host, which must not be called."""
    with socket.create_server((HERE, 0)) as server:
        server.settimeout(0)
        yield server


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def was_called(server: socket.socket) -> bool:
    with suppress(BlockingIOError):
        server.accept()[0].close()
        return True
    return False


@pytest.mark.parametrize(
    ("address", "is_one"),
    [
        *((each, True) for each in ("169.254.169.254", "169.254.1.1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254")),
        *((each, True) for each in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "::ffff:169.254.169.254")),
        *((each, True) for each in ("64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "::169.254.169.254")),
        *((each, False) for each in ("127.0.0.1", "::1", "10.0.0.1", "100.100.100.201", "fd00::1", "2606:4700::1111")),
    ],
)
def test_what_is_contacted_only_where_it_is_written_as_such(address: str, is_one: bool) -> None:
    assert special_addresses.is_guarded(ip_address(address)) is special_addresses.names_guarded(address) is is_one
    if is_one:
        assert special_addresses.contactable(address, [address]) == [address]
        assert special_addresses.contactable("nas.example", [address, "192.0.2.7"]) == ["192.0.2.7"]
        with pytest.raises(special_addresses.GuardedAddress, match=r"nas\.example leads to .* and no name may lead"):
            special_addresses.contactable("nas.example", [address])


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1"])
def test_loopback_is_one_where_it_is_closed(address: str, closed: None) -> None:
    assert special_addresses.is_guarded(ip_address(address))
    assert special_addresses.names_guarded("LOCALHOST.")
    assert special_addresses.names_guarded("x.localhost")
    assert not special_addresses.names_guarded("nas.example")


OF_KIND: dict[str, dict[str, Any]] = {
    "sftp": {}, "imap": {}, "mariadb": {}, "postgresql": {"path": "shop", "options": {"user": "u"}},
    "webdav": {"address": "http://{}:{}"}, "s3": {"address": "http://{}:{}", "path": "bucket"},
    "rclone": {"options": {"type": "ftp", "host": "{}", "port": "{}"}},
}  # fmt: skip


def source_at(kind: str, host: str, port: int) -> Source:
    fields: dict[str, Any] = {"address": host, "port": port} | OF_KIND[kind]
    if "://" in fields["address"]:
        fields |= {"address": fields["address"].format(host, port), "port": None}
    if kind == "rclone":
        fields |= {"options": {"type": "ftp", "host": host, "port": str(port)}, "address": "", "port": None}
    return Source(kind=kind, name=kind, **fields)


@pytest.mark.parametrize("kind", OF_KIND)
def test_no_question_whether_a_source_is_there_reaches_one(kind: str, listener: socket.socket, closed: None) -> None:
    answer = ask_now(source_at(kind, NAME, port_of(listener)), PATIENCE)
    assert not answer.present
    assert f"{NAME} leads to {HERE}, and no name may lead to" in answer.text
    assert not was_called(listener)


def test_no_host_key_is_fetched_from_one(listener: socket.socket, closed: None) -> None:
    with pytest.raises(OSError, match=f"{NAME} leads to {HERE}"):
        fetch_now(NAME, port_of(listener))
    assert not was_called(listener)


SFTP = {"options": {"user": "u"}, "secret": "s", "host_key": "ssh-ed25519 AAAA"}


def sources(host: str, port: int) -> list[SourceSpec]:
    """The programs of kinds that look names up by themselves."""
    samba = {"type": "smb", "host": host, "port": str(port), "user": "u"}
    return [
        specification("sftp", host, port=port, **SFTP),
        specification("rclone", options=samba, secret=None, path=""),
        specification("postgresql", host, port=port, path="shop", options={"user": "u"}),
        specification("mariadb", host, port=port, path="shop", options={"user": "u"}),
        specification("mariadb", host, port=port, path="shop", options={"user": "u", "sslmode": "verify-full"}),
        specification("imap", host, port=port, path="", options={"user": "u", "tls": "none"}),
    ]


def prepared(source: SourceSpec) -> str:
    """The arguments by which its program learns where it is."""
    match source.kind:
        case "postgresql":
            return connection_environment(source, PATIENCE)["PGHOSTADDR"]
        case "mariadb":
            with option_file(source) as (_, descriptor):
                return Path(f"/dev/fd/{descriptor}").read_text().partition('host="')[2].partition('"')[0]
        case "imap":
            with session_with(source, PATIENCE, PATIENCE, lambda size: None):
                raise AssertionError
    with way_to(source, of_directory(Path("/"))) as environment:
        return environment["RCLONE_CONFIG_SRC_HOST"]


def test_no_engine_reaches_one_and_each_gets_the_address_that_was_looked_at(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = sources(NAME, port_of(listener))
    assert [prepared(each) for each in everything[:-1]] == [*[HERE] * 4, NAME]  # which its certificate has to name
    assert not was_called(listener)
    monkeypatch.setattr(special_addresses, "loopback_is_open", False)
    for source in everything:
        with pytest.raises(RunEnded, match=f"does not answer: {NAME} leads to {HERE}") as ended:
            prepared(source)
        assert ended.value.verdict is Verdict.UNAVAILABLE
    assert not was_called(listener)


def test_no_repository_and_no_gate_reaches_one(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    port = str(port_of(listener))
    samba = remotes.location_of("backups", {"type": "smb", "host": NAME, "port": port}, {}, None)
    share = remotes.location_of("backups", {"type": "webdav", "url": f"http://{NAME}:{port}"}, {}, None)
    with reached(samba) as found:
        assert found["RCLONE_CONFIG_BASE_HOST"] == HERE
    with reached(share) as found:
        assert wished(found["HTTP_PROXY"], NAME, int(port)) == DONE
    assert was_called(listener)
    monkeypatch.setattr(special_addresses, "loopback_is_open", False)
    with pytest.raises(OSError, match=f"{NAME} leads to {HERE}"), reached(samba):
        pass
    with reached(share) as found:
        assert wished(found["HTTP_PROXY"], NAME, int(port)) == GUARDED
    result = back_up(specification("webdav", f"http://{NAME}:{port}", path="", secret=None), tmp_path / "copy")
    assert result.verdict is Verdict.UNAVAILABLE
    assert "host unreachable, for no name may lead to" in result.error
    assert not was_called(listener)


@pytest.mark.slow
def test_no_process_of_a_backup_reaches_one(listener: socket.socket, tmp_path: Path, settings: Any) -> None:
    """The rule goes with each order, to what that starts as well."""
    settings.LOOPBACK = False
    port = port_of(listener)
    share = specification("webdav", f"http://{NAME}:{port}", path="", secret=None)
    by_pip = (each for each in sources(NAME, port) if each.kind in ("sftp", "rclone", "imap"))
    for source in (share, *by_pip):
        task = task_for(source, tmp_path / "copy", staging=str(tmp_path / "staging"))
        result = repository_orders.back_up(task, on_progress=lambda progress: None, stop=threading.Event())
        assert (result.verdict, was_called(listener)) == (Verdict.UNAVAILABLE, False), result


def test_a_number_of_a_metadata_service_leads_nowhere() -> None:
    for kind in ("webdav", "sftp", "postgresql"):
        assert "169.254.169.254, and no name may lead" in ask_now(source_at(kind, METADATA, 80), PATIENCE).text


def wished(proxy: str, host: str, port: int) -> int:
    """A gate's reply to a request for a connection to a name."""
    where, _, at = proxy.removeprefix("socks5://").partition(":")
    with socket.create_connection((where, int(at)), PATIENCE) as connection:
        connection.sendall(b"\5\1\0" + b"\5\1\0\3" + bytes([len(host)]) + host.encode() + port.to_bytes(2, "big"))
        return connection.makefile("rb").read(4)[3]


@pytest.mark.parametrize("other", ["169.254.169.254", "::ffff:169.254.169.254", "100.100.100.200"])
def test_a_name_that_a_program_looks_up_again_has_no_guarded_address_at_all(
    other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(*_: Any, **__: Any) -> list[Any]:
        return [(0, 0, 0, "", (each, 0)) for each in (HERE, other)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    fields: dict[str, Any] = {"port": 1, "path": "shop"}
    plain = specification("mariadb", "db.example", options={"user": "u"}, **fields)
    verified = specification("mariadb", "db.example", options={"user": "u", "sslmode": "verify-full"}, **fields)
    assert prepared(plain) == HERE
    with pytest.raises(RunEnded, match=rf"db\.example leads to {other}, too, and no name may lead to"):
        prepared(verified)
