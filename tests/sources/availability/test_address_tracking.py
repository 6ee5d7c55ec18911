"""A source whose address follows its check-in: only to where its pinned host key is proven."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest
from asgiref.sync import async_to_sync

from external.network import contact
from jobs.handlers import Run
from jobs.models import Decision
from jobs.outcomes import Handoff
from sources.availability import address_tracking
from sources.availability.address_tracking import ask_where_it_is, candidates_of, shows_pinned_key
from sources.availability.check import ask_source
from sources.availability.probes import Answer
from sources.models import Source
from tests.sources.factories import MONDAY, claimed_for, make_assignment, make_policy
from tests.sources.hosts import Host, Hosts, another_address
from tests.sources.strangers import black_hole
from tests.waiting import PATIENCE

TIMEOUT = 15.0


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(tmp_path)
    yield made
    made.end()


def checked_in(host: Host, *addresses: str, **fields: object) -> Source:
    """The source that `host` is, known at the address it has now, after a check-in from `addresses`."""
    return host.source(checked_in_at=MONDAY, addresses=list(addresses), **fields)


def ask(source: Source, timeout: float = TIMEOUT) -> tuple[Answer, str | None]:
    """Raises: TimeoutError when it takes much longer than it should, whatever `timeout` is."""
    return asyncio.run(asyncio.wait_for(ask_where_it_is(source, timeout), PATIENCE))


@pytest.mark.slow
class TestWhereItIs:
    def test_it_is_found_beside_an_old_address_that_is_silent_for_all_the_time(self, hosts: Hosts) -> None:
        host = hosts()
        source = checked_in(host, another_address())
        host.move(source.addresses[0])
        with socket.create_server((source.address, host.port)):  # and nothing accepts
            answer, address = ask(source, timeout=3600)
        assert (answer.present, address) == (True, host.address)
        assert host.address in answer.text

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("follows", [True, False])
    def test_only_where_its_policy_says_so_a_backup_follows_it(self, follows: bool, hosts: Hosts) -> None:
        host = hosts()
        source = checked_in(host, another_address())
        source.save()
        host.move(source.addresses[0])
        assignment = make_assignment(make_policy(address_follows=follows, connect_timeout=TIMEOUT), source)
        outcome = async_to_sync(ask_source)(Run(claimed_for(assignment)))
        source.refresh_from_db()
        assert (isinstance(outcome, Handoff), source.address == host.address) == (follows, follows)
        assert Decision.objects.filter(what="moved").exists() == follows

    def test_one_that_stayed_is_not_looked_for_and_one_that_is_slow_to_answer_stays(
        self, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host, elsewhere = hosts().come(), another_address()
        with socket.create_server((elsewhere, host.port)) as other:  # and nothing accepts
            other.setblocking(False)
            answer, address = ask(checked_in(host, elsewhere))
            assert (answer.present, address) == (True, None)
            with pytest.raises(BlockingIOError):
                other.accept()
            monkeypatch.setattr(address_tracking, "HEAD_START_SECONDS", 0)
            answer, address = ask(checked_in(host, elsewhere), timeout=3600)
            assert (answer.present, address) == (True, None)

    def test_another_host_at_the_old_address_does_not_hide_it(self, hosts: Hosts) -> None:
        host, other = hosts().come(), hosts("other").pinned
        source = checked_in(host, another_address(), host_key=f"{other}\n{host.pinned} a comment\n")  # one of several
        old = host.address
        host.move(source.addresses[0])
        hosts("stranger", address=old, port=host.port).come()
        answer, address = ask(source)
        assert (answer.present, address) == (True, host.address)

    @pytest.mark.parametrize("claimed", ["no", "by address", "by name"])
    def test_a_stranger_at_an_old_address_is_not_the_source_unless_it_claims_that_address(
        self, hosts: Hosts, monkeypatch: pytest.MonkeyPatch, claimed: str
    ) -> None:
        host = hosts()
        hosts("stranger", address=host.address, port=host.port).come()
        monkeypatch.setattr(contact, "_look_up", {"laptop.example": [host.address]}.__getitem__)
        fields = {"address": "laptop.example"} if claimed == "by name" else {}
        own = [host.address] if claimed == "by address" else []
        answer, address = ask(checked_in(host, *own, another_address(), **fields))
        assert (answer.present, address) == (claimed != "no", None)  # its engine refuses the key
        assert answer.text.endswith(f":{host.port} showed another host key than the pinned one")

    def test_a_host_with_another_key_where_it_checked_in_from_is_not_taken(
        self, hosts: Hosts, caplog: pytest.LogCaptureFixture
    ) -> None:
        host = hosts()
        stranger = hosts("stranger", port=host.port).come()
        source = checked_in(host, stranger.address)
        answer, address = ask(source)
        assert (answer.present, address) == (False, None)
        [warning] = [line for line in caplog.records if line.levelno == logging.WARNING]
        assert source.name in warning.getMessage()
        assert stranger.address in warning.getMessage()

    def test_one_that_is_nowhere_is_silent_within_the_timeout(self, hosts: Hosts) -> None:
        with black_hole() as port:
            source = checked_in(hosts(port=port), *[another_address() for _ in range(20)])
            answer, address = ask(source, timeout=4.0)  # one after the other they would need more than our patience
        assert (answer.present, address) == (False, None)
        assert answer.text.endswith("did not answer within 4 s")


class TestTheProof:
    """Real key exchanges with servers of this process."""

    def test_a_host_that_shows_the_pinned_key_without_having_it_is_refused(self) -> None:
        pinned, own = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
        [impostor] = asyncssh.load_keypairs([own])
        impostor.public_data = pinned.public_data
        assert asyncio.run(proves(pinned, by=[impostor])) is False
        assert asyncio.run(proves(pinned, by=[pinned])) is True

    def test_a_host_with_keys_of_several_types_is_asked_for_the_pinned_one(self) -> None:
        ed25519 = asyncssh.generate_private_key("ssh-ed25519")
        others = [
            asyncssh.generate_private_key("ecdsa-sha2-nistp256"),
            asyncssh.generate_private_key("ssh-rsa", key_size=2048),
        ]
        for pinned in (ed25519, *others):
            assert asyncio.run(proves(pinned, by=[ed25519, *others])) is True
        assert asyncio.run(proves(ed25519, by=others)) is False

    def test_what_is_no_ssh_host_proves_nothing(self) -> None:
        async def ask_a_web_server() -> bool:
            async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                writer.close()

            async with await asyncio.start_server(refuse, "127.0.0.1") as server:
                port = server.sockets[0].getsockname()[1]
                return await shows_pinned_key("127.0.0.1", port, "ssh-ed25519 AAAA")

        with pytest.raises(OSError, match=r"hung up|reset"):
            asyncio.run(ask_a_web_server())


async def proves(pinned: asyncssh.SSHKey, by: list[asyncssh.SSHKey | asyncssh.SSHKeyPair]) -> bool:
    """True if a server with these host keys is taken for the host whose key is `pinned`."""
    async with asyncssh.listen("127.0.0.1", 0, server_host_keys=by, config=None) as server:
        return await shows_pinned_key("127.0.0.1", server.get_port(), line_of(pinned))


def line_of(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode()


def test_it_may_have_moved_to_addresses_of_one_host_each_once_and_in_their_order_if_a_key_of_it_is_pinned() -> None:
    known_or_none = ["127.1.1.1", "0.0.0.0", "224.0.0.1", "169.254.3.4", "fe80::1", "255.255.255.255"]
    many = [f"10.0.{number // 250}.{number % 250}" for number in range(1000)]
    for addresses, found in (
        ([*known_or_none, "a.example", "-oProxy", "", None, 7.5], []),
        (["192.0.2.7", "2001:db8:0::5", "192.0.2.7", "127.1.1.1", "2001:db8::5"], ["192.0.2.7", "2001:db8::5"]),
        (many, many[:32]),
    ):
        assert candidates_of(laptop(addresses=addresses)) == found
    for fields in (
        {"kind": "webdav"},
        {"checked_in_at": None},
        {"host_key": ""},
        {"host_key": "ssh-ed25519 no-base64"},
    ):
        assert candidates_of(laptop(**fields)) == []


def laptop(**fields: object) -> Source:
    usual: dict[str, object] = {
        "kind": "sftp",
        "address": "127.1.1.1",
        "checked_in_at": MONDAY,
        "addresses": ["10.0.0.1"],
    }
    return Source(**(usual | {"host_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA"} | fields))
