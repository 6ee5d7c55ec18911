"""Wake-on-LAN: the packet as a network card sees it, and when it is sent."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from ipaddress import ip_network
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models import F, Sum

from external.network import contact
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from jobs.outcomes import Unavailable
from jobs.priorities import WOKEN
from jobs.states import Status
from sources.availability import wake, wake_networks
from sources.models import Assignment, Policy, Source
from sources.planning import emit_due, subject_of
from tests.engines.peers import loopback_address
from tests.factories import make_record, make_worker
from tests.sources.factories import MONDAY, claimed_for, make_assignment, make_policy, make_source
from tests.threads import at_once
from tests.waiting import PATIENCE

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


def send(source: Source) -> str | None:
    return wake.wake(source, asyncio.run(wake.broadcast_address(source)), MONDAY)


@pytest.mark.django_db
def test_the_packet_is_six_times_ff_and_sixteen_times_the_address(network_card: socket.socket) -> None:
    source = sleeping_source(network_card)
    assert send(source) is None
    packet = network_card.recv(2048)
    assert packet == bytes.fromhex("ff" * 6 + "020000aabbcc" * 16)
    assert len(packet) == 102
    source.refresh_from_db()
    assert source.last_woken_at == MONDAY
    for written in ("02-00-00-AA-BB-CC", "0200.00aa.bbcc", "020000AABBCC"):
        source.mac_address = written
        assert send(source) is None
        assert network_card.recv(2048) == packet


@pytest.mark.django_db
def test_a_packet_that_cannot_or_may_not_be_sent_is_an_error_message_and_not_remembered(
    network_card: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = {"v4.example": ["198.51.100.7"], "v6.example": ["2001:db8:7::1"]}
    monkeypatch.setattr(contact, "_look_up", lambda name: elsewhere.get(name) or look_up(name))
    for field, values in (
        ("wake_address", ("not an address", "", "x" * 64, *elsewhere)),
        ("mac_address", ("02:00:00", "02:00:00:aa:bb:cg", "02:00:00:aa:bb:cc/02:00:00:aa:bb:cc")),
        ("wake_port", (70_000,)),
    ):
        for value in values:
            source = sleeping_source(network_card)
            setattr(source, field, value)
            error = str(send(source))
            assert error.startswith(f"cannot send a magic packet to {source.wake_address}:{source.wake_port}: ")
            assert ("BACKUPSCHED_WAKE_NETWORKS" in error) is (value in elsewhere)
            source.refresh_from_db()
            assert source.last_woken_at is None


look_up = contact._look_up


@pytest.mark.django_db
def test_a_name_is_looked_up_and_given_up_when_that_takes_long(
    network_card: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering = threading.Event()
    monkeypatch.setattr(contact, "_look_up", lambda _: [network_card.getsockname()[0]])
    source = sleeping_source(network_card)
    source.wake_address = "everything.example"
    assert send(source) is None
    assert len(network_card.recv(2048)) == 102
    monkeypatch.setattr(contact, "_look_up", lambda _: answering.wait(PATIENCE) and [])
    monkeypatch.setattr(wake, "LOOKUP_SECONDS", 0.1)
    error = send(source)
    answering.set()
    assert str(error).endswith("no such name")


def test_packets_go_to_the_networks_of_this_host_and_to_those_that_are_configured(settings: Any) -> None:
    assert wake_networks.is_allowed("127.77.1.2")
    assert wake_networks.is_allowed("255.255.255.255")
    assert not wake_networks.is_allowed("198.51.100.255")
    settings.WAKE_NETWORKS = [ip_network("198.51.100.0/24")]
    assert wake_networks.is_allowed("198.51.100.255")


@pytest.mark.django_db
def test_a_packet_that_cannot_be_written_down_was_sent_all_the_same(
    network_card: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def be_away(**_: object) -> None:
        raise OperationalError("the database is away")

    source = sleeping_source(network_card)
    monkeypatch.setattr(Source.objects, "filter", be_away)
    assert send(source) is None
    assert len(network_card.recv(2048)) == 102
    assert "the next one may come too soon" in caplog.text


def asleep(card: socket.socket, **fields: Any) -> Assignment:
    policy = make_policy(wake_allowed=True, wake_wait=180, recheck_after=900)
    return make_assignment(policy, sleeping_source(card, kind="sftp", address="192.0.2.9", **fields))


def found_silent(assignment: Assignment, **record: Any) -> Unavailable:
    read = Assignment.objects.select_related("source", "policy__schedule").get(pk=assignment.pk)
    return wake._after_silence(claimed_for(read, **record), read, "silent", read.source.wake_address)


@pytest.mark.django_db
def test_a_packet_is_sent_only_while_a_unit_is_foreseen_for_what_wakes(network_card: socket.socket) -> None:
    make_worker(queues={"backups": 2}, heartbeat_at=database_clock())
    found = [found_silent(asleep(network_card)) for _ in range(5)]
    assert [each.woken for each in found] == [True] * 3 + [False] * 2
    assert found[4].reason.endswith("no execution unit is foreseen for it")
    assert (found[4].recheck_after, Source.objects.aggregate(n=Sum("wakes"))["n"]) == (180, 3)
    # settled meanwhile: two wait for their re-check, one was silent at that
    Source.objects.filter(wakes=1).update(last_woken_at=F("last_woken_at") - timedelta(minutes=2))
    woken = Assignment.objects.filter(source__wakes=1).order_by("pk")
    emit_due(None, [each.pk for each in woken])
    first, *_ = woken
    BacklogRecord.objects.exclude(subject=subject_of(first.pk)).update(priority=WOKEN)
    assert [found_silent(asleep(network_card)).woken for _ in range(2)] == [True, False]


@pytest.mark.django_db(transaction=True)
def test_of_two_that_are_silent_at_once_one_is_woken_for_one_unit(network_card: socket.socket) -> None:
    worker = make_worker(queues={"backups": 1}, heartbeat_at=database_clock())
    make_record(Status.RUNNING, queue="backups", worker=worker)
    both = [asleep(network_card) for _ in range(2)]
    found = at_once(*(partial(found_silent, each) for each in both))
    assert sorted(each.woken for each in found) == [False, True]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("priority", "seconds", "again"), [(WOKEN, 250, True), (WOKEN, 190, False), (0, 250, False), (WOKEN, 9000, True)]
)
def test_what_was_asked_too_late_is_woken_again_whenever_the_last_packet_was(
    network_card: socket.socket, priority: int, seconds: int, again: bool
) -> None:
    make_worker(queues={"backups": 2}, heartbeat_at=database_clock())
    now = database_clock()
    assignment = asleep(network_card, last_woken_at=now - timedelta(seconds=seconds))
    assert found_silent(assignment, priority=priority, started_at=now).woken is again


def test_a_source_is_woken_at_most_once_in_its_time_if_it_or_else_its_policy_allows_it() -> None:
    for seconds_ago, wake_every, may in (
        (None, 3600, True),
        (3599, 3600, False),
        (3600, 3600, True),
        (0, 0, True),
        (1, 0, True),
        (-60, 3600, False),  # the clock was set back
        (-90_000, 3600, True),
    ):
        woken = None if seconds_ago is None else MONDAY - timedelta(seconds=seconds_ago)
        source = Source(mac_address=MAC_ADDRESS, last_woken_at=woken)
        policy = Policy(wake_allowed=True, wake_every=wake_every)
        assert wake.may_wake(source, policy, MONDAY) is may, (seconds_ago, wake_every)
    for of_source, of_policy, may in (
        (None, True, True), (None, False, False), (True, False, True), (False, True, False),
    ):  # fmt: skip
        source, policy = Source(mac_address=MAC_ADDRESS, wake_allowed=of_source), Policy(wake_allowed=of_policy)
        assert wake.may_wake(source, policy, MONDAY) is may, (of_source, of_policy)
        source.mac_address = ""
        assert not wake.may_wake(source, policy, MONDAY)
