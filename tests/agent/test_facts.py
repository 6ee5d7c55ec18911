"""Facts that an agent finds out about its machine: best effort, bounded, never fatal."""

import ipaddress
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.agent.processes import FINE, as_module

agent = as_module("backupsched_agent_facts")


def supply(root: Path, name: str, **files: str) -> None:
    directory = root / "class/power_supply" / name
    directory.mkdir(parents=True)
    for file, text in files.items():
        (directory / file).write_text(text + "\n")


def program(directory: Path, name: str, body: str) -> None:
    """A program of the system, as a shell script."""
    path = directory / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(stat.S_IRWXU)


class TestOnBattery:
    @pytest.mark.parametrize(
        ("supplies", "expected"),
        [
            ({}, None),
            ({"AC": {"type": "Mains", "online": "0"}}, None),
            ({"BAT0": {"type": "Battery", "status": "Full"}}, False),
            ({"AC": {"type": "Mains", "online": "0"}, "BAT0": {"type": "Battery", "status": "Discharging"}}, True),
            ({"BAT0": {}}, None),
        ],
    )
    def test_linux_says_it_in_sysfs(self, tmp_path, supplies, expected):
        for name, files in supplies.items():
            supply(tmp_path, name, **files)
        assert agent.on_battery(str(tmp_path)) is expected

    @pytest.mark.parametrize(
        ("printed", "expected"),
        [("Now drawing from 'Battery Power'", True), ("Now drawing from 'AC Power'", False), ("", None)],
    )
    def test_macos_says_it_by_a_program(self, tmp_path, monkeypatch, printed, expected):
        program(tmp_path, "pmset", f'[ "$*" = "-g batt" ] && echo "{printed}"')
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setattr(agent.sys, "platform", "darwin")
        assert agent.on_battery("/sys") is expected


def test_whether_a_connection_is_metered_network_manager_says_on_the_bus_or_by_its_own_program(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert agent.metered() is None, "without either it is unknown"
    for printed, expected in (("u 1", True), ("u 3", True), ("u 0", None), ("", None)):
        program(tmp_path, "busctl", f'echo "{printed}"')
        assert agent.metered() is expected
    program(tmp_path, "busctl", "exit 1")
    for lines, expected in (("GENERAL.METERED:yes", True), ("GENERAL.METERED:unknown", None)):
        program(tmp_path, "nmcli", f"printf '{lines}\\n'")
        assert agent.metered() is expected


class TestAddresses:
    def test_those_that_others_can_reach_are_kept_and_the_systems_own_found_without_a_name_server(self, monkeypatch):
        found = ["127.0.0.1", "::1", "169.254.1.1", "fe80::1%eth0", "224.0.0.1", "0.0.0.0", "no address", "192.0.2.5",
                 "2001:db8::5%eth0"]  # fmt: skip
        assert agent.useful(found) == ["192.0.2.5", "2001:db8::5"]

        def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError("a name server was asked")

        monkeypatch.setattr(agent.socket, "getaddrinfo", refuse)
        found = agent.own_addresses()
        assert found == agent.useful(found)
        assert "127.0.0.1" in agent.ipv4_of_interfaces()
        assert all(ipaddress.IPv6Address(address) for address in agent.ipv6_of_interfaces())

    def test_the_one_towards_the_server_comes_first_and_there_are_at_most_twenty(self, monkeypatch):
        many = [f"192.0.2.{number}" for number in range(1, 60)]
        monkeypatch.setattr(agent, "own_addresses", lambda: many)
        monkeypatch.setattr(agent, "outgoing", lambda family, target: ["192.0.2.30"])
        found = agent.addresses_towards("http://127.0.0.1:8000")
        assert found[:3] == ["192.0.2.30", "192.0.2.1", "192.0.2.2"]
        assert len(found) == len(set(found)) == 20


@pytest.mark.slow
class TestBounds:
    def test_programs_that_hang_delay_a_check_in_by_two_seconds_at_most(self, enrolled, server, tmp_path):
        for name in ("busctl", "nmcli"):
            program(tmp_path, name, "exec sleep 3600")
        supply(tmp_path, "BAT0", type="Battery", status="Discharging")
        assert agent.FACTS_TIMEOUT == 2
        done = enrolled.process("announce", "--sysfs-root", str(tmp_path), PATH=f"{tmp_path}:/usr/bin:/bin")
        assert done.returncode == FINE
        [body] = server.check_ins()
        assert (body["metered"], body["on_battery"]) == (None, True)

    def test_a_fact_that_breaks_or_hangs_is_unknown_and_the_others_are_sent(self, monkeypatch):
        def broken(*_: Any) -> None:
            raise RuntimeError("no such thing")

        monkeypatch.setattr(agent, "on_battery", broken)
        over = threading.Event()
        monkeypatch.setattr(agent, "addresses_towards", lambda url: over.wait(3600))
        monkeypatch.setattr(agent, "metered", lambda: True)
        monkeypatch.setattr(agent.socket, "gethostname", lambda: "lap\x00top\n" + "x" * 400)
        found = agent.facts(agent.Config("http://127.0.0.1", "token", "laptop"), "timer", "/sys")
        over.set()
        assert (found["on_battery"], found["addresses"], found["metered"]) == (None, [], True)
        assert found["hostname"].isprintable()
        assert len(found["hostname"]) <= 253
