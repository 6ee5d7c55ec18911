"""The file itself, and what installs and starts it."""

import ast
import os
import plistlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.processes import AGENT, ROOT, as_module
from tests.documents import table_rows
from tests.programs import needed
from tests.waiting import PATIENCE, eventually

UNIT = ROOT / "agent/systemd/backupsched-agent.service"
SNIPPET = ROOT / "agent/networkmanager/90-backupsched-agent"
PLIST = ROOT / "agent/launchd/org.backupsched.agent.plist"

NEWER_THAN_3_8 = {
    "removeprefix", "removesuffix", "is_relative_to", "with_stem", "UTC", "cache", "to_thread", "batched", "pairwise",
    "zoneinfo", "tomllib", "graphlib", "hardlink_to", "randbytes", "exception_group", "StrEnum", "add_note",
}  # fmt: skip


class TestTheFile:
    def test_it_uses_the_standard_library_of_python_3_8_only(self):
        """Its annotations are written as Python 3.10 has them, and never evaluated. `make lint` reads it as 3.8."""
        nodes = list(ast.walk(ast.parse(AGENT.read_text(encoding="utf-8"), feature_version=(3, 8))))
        used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        used |= {node.id for node in nodes if isinstance(node, ast.Name)}
        assert used & NEWER_THAN_3_8 == set()
        keywords = {node.arg for node in nodes if isinstance(node, ast.keyword)}
        assert keywords & {"strict", "slots", "kw_only"} == set()
        first, *others = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        assert (first.module, [alias.name for alias in first.names]) == ("__future__", ["annotations"])
        imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        imported |= {str(node.module) for node in others}
        assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names

    def test_the_page_has_its_commands_exit_codes_and_every_field_that_is_sent(self):
        page, agent = ROOT / "docs/agent.md", as_module("backupsched_agent_packaging")
        described = {cells[0].strip("`").split()[0] for cells in table_rows(page, "Commands")}
        commands = set(agent.parser()._subparsers._group_actions[0].choices)
        codes = {str(code) for code in (agent.FINE, agent.REFUSED, agent.BAD_USAGE, agent.UNREACHABLE)}
        assert described == commands | codes
        described = {cells[0].strip("`") for cells in table_rows(page, "What it sends")}
        assert described == set(agent.facts(agent.Config("http://127.0.0.1", "", ""), "timer", "/sys"))


class TestTheSystemdUnit:
    def settings(self) -> dict[str, str]:
        lines = UNIT.read_text(encoding="utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))

    def test_it_runs_the_agent_under_an_account_of_its_own(self):
        found = self.settings()
        assert found["DynamicUser"] == found["NoNewPrivileges"] == found["ProtectHome"] == "yes"
        assert (found["ProtectSystem"], found["CapabilityBoundingSet"]) == ("strict", "")
        assert "User" not in found
        agent = as_module("backupsched_agent_packaging")
        slowest = agent.FACTS_TIMEOUT + agent.WHOLE_REQUEST + agent.LOOK_EVERY
        assert float(found["WatchdogSec"]) > 2 * slowest
        assert os.access(AGENT, os.X_OK)
        assert AGENT.read_text(encoding="utf-8").startswith("#!/usr/bin/env python3\n")

    def test_systemd_finds_nothing_wrong_with_it(self, tmp_path):
        analyze = needed("systemd-analyze", "systemd")
        unit = tmp_path / UNIT.name
        unit.write_text(UNIT.read_text().replace("/usr/local/bin/backupsched-agent", str(AGENT)))
        done = subprocess.run((analyze, "verify", "--man=no", unit), capture_output=True, text=True, check=False)
        own = [line for line in (done.stdout + done.stderr).splitlines() if UNIT.name in line]
        assert (done.returncode, own) == (0, [])


class TestTheLaunchdJob:
    def test_it_keeps_the_agent_running(self):
        job = plistlib.loads(PLIST.read_bytes())
        assert job["Label"] == PLIST.name.removesuffix(".plist")
        assert job["ProgramArguments"] == ["/usr/bin/python3", "/usr/local/bin/backupsched-agent", "run"]
        assert job["KeepAlive"] is job["RunAtLoad"] is True
        assert job["Umask"] == 0o077


@pytest.mark.slow
class TestTheNetworkManagerSnippet:
    @pytest.fixture
    def snippet(self, tmp_path: Path) -> Path:
        """The snippet, with an agent that writes down its arguments and ends with the exit code in the file `code`."""
        agent, config = tmp_path / "agent", tmp_path / "agent.json"
        agent.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/called\nexit $(cat {tmp_path}/code)\n')
        agent.chmod(0o755)
        config.write_text("{}")
        (tmp_path / "code").write_text("0")
        text = SNIPPET.read_text(encoding="utf-8").replace("/usr/local/bin/backupsched-agent", str(agent))
        path = tmp_path / "90-backupsched-agent"
        path.write_text(text.replace("/etc/backupsched/agent.json", str(config)).replace("in 5 15 0", "in 0 0 0"))
        return path

    def calls(self, snippet: Path) -> list[str]:
        called = snippet.parent / "called"
        return called.read_text().splitlines() if called.exists() else []

    def test_a_connection_is_announced_whatever_its_interface_is_called_and_everything_else_is_left_alone(
        self, snippet
    ):
        assert os.access(SNIPPET, os.X_OK)
        for arguments in (("eth0", "down"), ("eth0", "pre-up"), ("eth0",), ()):
            subprocess.run(("sh", snippet, *arguments), check=True)
            eventually(lambda: not is_running(snippet))
        assert self.calls(snippet) == []
        for number, action in enumerate(("up", "dhcp4-change", "dhcp6-change", "vpn-up"), 1):
            argv = ("sh", snippet, "--token $(touch evil)", action)
            subprocess.run(argv, check=True, cwd=snippet.parent, timeout=PATIENCE)
            eventually(lambda number=number: len(self.calls(snippet)) == number)
        assert set(self.calls(snippet)) == {f"announce --reason network --config {snippet.parent}/agent.json"}
        assert not (snippet.parent / "evil").exists()
        (snippet.parent / "agent.json").unlink()
        subprocess.run(("sh", snippet, "eth0", "up"), check=True)  # a machine that is not enrolled
        eventually(lambda: not is_running(snippet))
        assert len(self.calls(snippet)) == 4

    def test_network_manager_is_not_kept_waiting(self, snippet):
        gate = snippet.parent / "gate"
        os.mkfifo(gate)
        (snippet.parent / "agent").write_text(f"#!/bin/sh\nread word < {gate}\n")
        subprocess.run(("sh", snippet, "eth0", "up"), check=True, timeout=PATIENCE)
        assert is_running(snippet)
        gate.write_text("go on\n")
        eventually(lambda: not is_running(snippet))

    @pytest.mark.parametrize(("code", "times"), [(3, 3), (1, 1), (2, 1)])
    def test_only_an_unreachable_server_is_tried_again(self, snippet, code, times):
        (snippet.parent / "code").write_text(str(code))
        subprocess.run(("sh", snippet, "eth0", "up"), check=True, timeout=PATIENCE)
        eventually(lambda: len(self.calls(snippet)) >= times)
        eventually(lambda: not is_running(snippet))
        assert len(self.calls(snippet)) == times


def is_running(script: Path) -> bool:
    """True if any process has `script` in its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(script) in path.read_bytes():
                return True
        except OSError:  # it has ended
            continue
    return False
