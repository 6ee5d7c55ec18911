"""Wake-on-LAN: the packet as a network card sees it, and when it is sent."""

import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from sources.availability import answers, contact, wake, wake_networks
from sources.models import Policy, Source
from tests.sources.engines.peers import loopback_address
from tests.sources.factories import MONDAY, make_source
from tests.sources.hosts import Hosts, another_address
from tests.waiting import PATIENCE, eventually

MAC_ADDRESS = "02:00:00:aa:bb:cc"


@pytest.fixture
def network_card() -> Iterator[socket.socket]:
    """A UDP socket on a loopback address of this process, that waits 20 s for a packet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as card:
        card.settimeout(PATIENCE)
        card.bind((loopback_address(), 0))
        yield card


def sleeping_source(card: socket.socket, **fields: object) -> Source:
    address, port = card.getsockname()
    return make_source(mac_address=MAC_ADDRESS, wake_address=address, wake_port=port, **fields)


@pytest.mark.django_db
def test_the_packet_is_six_times_ff_and_sixteen_times_the_address(network_card: socket.socket) -> None:
    source = sleeping_source(network_card)
    assert wake.wake(source, MONDAY) is None
    packet = network_card.recv(2048)
    assert packet == bytes.fromhex("ff" * 6 + "020000aabbcc" * 16)
    assert len(packet) == 102
    source.refresh_from_db()
    assert source.last_woken_at == MONDAY


@pytest.mark.django_db
@pytest.mark.parametrize("written", ["02-00-00-AA-BB-CC", "02:00:00:Aa:bB:cc", "0200.00aa.bbcc", "020000AABBCC"])
def test_other_spellings_of_the_address_make_the_same_packet(network_card: socket.socket, written: str) -> None:
    source = sleeping_source(network_card)
    source.mac_address = written
    assert wake.wake(source, MONDAY) is None
    assert network_card.recv(2048)[6:12] == bytes.fromhex("020000aabbcc")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("wake_address", "not an address"),
        ("wake_address", "-4"),
        ("wake_address", "--help"),
        ("wake_address", ""),
        ("wake_address", "x" * 64),
        ("mac_address", "02:00:00"),
        ("mac_address", "no mac here"),
        ("mac_address", "02:00:00:aa:bb:cg"),
        ("mac_address", "02:00:00:aa:bb:cc/02:00:00:aa:bb:cc"),
        ("mac_address", ""),
        ("wake_port", 70_000),
    ],
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


@pytest.mark.django_db
def test_each_source_is_woken_at_its_own_broadcast_address_and_port(network_card: socket.socket) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((another_address(), 0))
        other.settimeout(PATIENCE)
        source, neighbour = sleeping_source(network_card), sleeping_source(other)
        neighbour.mac_address = "02:00:00:00:00:01"
        assert wake.wake(neighbour, MONDAY) is None
        assert other.recv(2048)[6:12] == bytes.fromhex("020000000001")
        assert wake.wake(source, MONDAY) is None
        assert network_card.recv(2048)[6:12] == bytes.fromhex("020000aabbcc")


@pytest.mark.django_db
def test_a_broadcast_address_may_be_a_name(network_card: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    address, _ = network_card.getsockname()
    monkeypatch.setattr(contact, "_look_up", {"everybody.example": [address]}.__getitem__)
    source = sleeping_source(network_card)
    source.wake_address = "everybody.example"
    assert wake.wake(source, MONDAY) is None
    assert len(network_card.recv(2048)) == 102


@pytest.mark.django_db
@pytest.mark.parametrize("found", ["198.51.100.7", "2001:db8:7::1"])
def test_a_name_of_a_host_elsewhere_gets_no_packet(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contact, "_look_up", {"elsewhere.example": [found]}.__getitem__)
    source = make_source(mac_address=MAC_ADDRESS, wake_address="elsewhere.example")
    error = wake.wake(source, MONDAY)
    assert error is not None
    assert "BACKUPSCHED_WAKE_NETWORKS" in error
    source.refresh_from_db()
    assert source.last_woken_at is None


def test_packets_go_to_the_networks_of_this_host_and_to_those_that_are_configured(settings: Any) -> None:
    assert wake_networks.is_allowed("127.77.1.2")
    assert wake_networks.is_allowed("255.255.255.255")
    assert not wake_networks.is_allowed("198.51.100.255")
    settings.WAKE_NETWORKS = [ip_network("198.51.100.0/24")]
    assert wake_networks.is_allowed("198.51.100.255")


@pytest.mark.django_db
def test_a_name_that_nobody_answers_for_is_given_up(
    network_card: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering = threading.Event()
    monkeypatch.setattr(contact, "_look_up", lambda host: answering.wait(PATIENCE) and [])
    monkeypatch.setattr(wake, "LOOKUP_SECONDS", 0.1)
    source = sleeping_source(network_card)
    source.wake_address = "silent.example"
    error = wake.wake(source, MONDAY)
    answering.set()
    assert error is not None
    assert error.endswith("its name was not found within 0.1 s")


@pytest.mark.django_db
def test_a_packet_that_cannot_be_written_down_was_sent_all_the_same(
    network_card: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def be_away(**_: object) -> None:
        raise OperationalError("the database is away")

    source = sleeping_source(network_card)
    monkeypatch.setattr(Source.objects, "filter", be_away)
    assert wake.wake(source, MONDAY) is None
    assert len(network_card.recv(2048)) == 102
    assert "the next one may come too soon" in caplog.text


@pytest.mark.slow
@pytest.mark.django_db
def test_a_host_that_sleeps_is_silent_until_it_is_woken(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path)
    try:
        host = hosts().sleep()
        waking = {"mac_address": host.mac_address, "wake_address": host.address, "wake_port": host.wake_port}
        source = host.source(**waking)
        source.save()
        assert not answers.ask_now(source, 1).present
        neighbour = host.source(**waking | {"name": "neighbour", "mac_address": "02:00:00:00:00:01"})
        neighbour.save()
        assert wake.wake(neighbour, MONDAY) is None  # not its packet
        assert not answers.ask_now(source, 1).present
        assert wake.wake(source, MONDAY) is None
        eventually(lambda: answers.ask_now(source, 1).present)
    finally:
        hosts.end()


@pytest.mark.parametrize(
    ("seconds_ago", "wake_every", "may"),
    [
        (None, 3600, True),
        (3599, 3600, False),
        (3600, 3600, True),
        (0, 0, True),
        (1, 0, True),
        (-60, 3600, False),  # the clock was set back
        (-90_000, 3600, True),
    ],
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
