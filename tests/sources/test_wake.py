"""Wake-on-LAN: the packet as a network card sees it, and when it is sent."""

import socket
from collections.abc import Iterator
from datetime import timedelta

import pytest

from sources import wake
from sources.models import Policy, Source
from tests.sources.engines.peers import loopback_address
from tests.sources.factories import MONDAY, make_source

MAC_ADDRESS = "02:00:00:aa:bb:cc"


@pytest.fixture
def network_card() -> Iterator[socket.socket]:
    """A UDP socket on a loopback address of this process, that waits 20 s for a packet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as card:
        card.settimeout(20)
        card.bind((loopback_address(), 0))
        yield card


def sleeping_source(card: socket.socket, **fields: object) -> Source:
    address, port = card.getsockname()
    return make_source(mac_address=MAC_ADDRESS, wake_address=address, wake_port=port, **fields)


@pytest.mark.django_db
def test_the_packet_is_six_times_ff_and_sixteen_times_the_address(network_card: socket.socket) -> None:
    source = sleeping_source(network_card)
    assert wake.wake(source, MONDAY) is None
    assert network_card.recv(2048) == bytes.fromhex("ff" * 6 + "020000aabbcc" * 16)
    source.refresh_from_db()
    assert source.last_woken_at == MONDAY


@pytest.mark.django_db
@pytest.mark.parametrize("written", ["02-00-00-AA-BB-CC", "0200.00aa.bbcc", "020000AABBCC"])
def test_other_spellings_of_the_address_make_the_same_packet(network_card: socket.socket, written: str) -> None:
    source = sleeping_source(network_card)
    source.mac_address = written
    assert wake.wake(source, MONDAY) is None
    assert network_card.recv(2048)[6:12] == bytes.fromhex("020000aabbcc")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "value"),
    [("wake_address", "not an address"), ("mac_address", "02:00:00"), ("mac_address", "no mac here")],
)
def test_a_packet_that_cannot_be_sent_is_an_error_message_and_not_remembered(
    network_card: socket.socket, field: str, value: str
) -> None:
    source = sleeping_source(network_card)
    setattr(source, field, value)
    error = wake.wake(source, MONDAY)
    assert error is not None
    assert error.startswith(f"cannot send a magic packet to {source.wake_address}:{source.wake_port}: ")
    source.refresh_from_db()
    assert source.last_woken_at is None


@pytest.mark.parametrize(
    ("seconds_ago", "wake_every", "may"),
    [(None, 3600, True), (3599, 3600, False), (3600, 3600, True), (0, 0, True), (1, 0, True)],
)
def test_a_source_is_woken_at_most_once_in_its_time(seconds_ago: int | None, wake_every: float, may: bool) -> None:
    woken = None if seconds_ago is None else MONDAY - timedelta(seconds=seconds_ago)
    source = Source(mac_address=MAC_ADDRESS, last_woken_at=woken)
    assert wake.may_wake(source, Policy(wake_allowed=True, wake_every=wake_every), MONDAY) is may


@pytest.mark.parametrize(
    ("of_source", "of_policy", "may"),
    [(None, True, True), (None, False, False), (True, False, True), (False, True, False)],
)
def test_the_word_of_a_source_goes_before_that_of_its_policy(
    of_source: bool | None, of_policy: bool, may: bool
) -> None:
    source = Source(mac_address=MAC_ADDRESS, wake_allowed=of_source)
    assert wake.may_wake(source, Policy(wake_allowed=of_policy), MONDAY) is may


def test_without_a_mac_address_nothing_is_woken() -> None:
    assert not wake.may_wake(Source(wake_allowed=True), Policy(wake_allowed=True), MONDAY)
