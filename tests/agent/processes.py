"""Agents as real processes, and the agent's file as a module for its pure functions."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any
from unittest.mock import patch

from tests.waiting import PATIENCE, eventually

ROOT = Path(__file__).resolve().parents[2]
AGENT = ROOT / "agent/backupsched-agent"
ADJUSTED = Path(__file__).with_name("adjusted.py")

FINE, REFUSED, BAD_USAGE, UNREACHABLE = 0, 1, 2, 3


@cache
def _compiled() -> CodeType:
    return compile(AGENT.read_text(encoding="utf-8"), str(AGENT), "exec")


def as_module(name: str = "backupsched_agent") -> ModuleType:
    """The agent's file, executed as a module of its own. Writes no bytecode beside it."""
    module = ModuleType(name)
    sys.modules[name] = module  # where dataclasses look up annotations
    exec(_compiled(), module.__dict__)
    return module


def environment(home: Path, **variables: str) -> dict[str, str]:
    """Nothing of the tester's own: no proxies, no config, no service manager."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), **variables}


def replace(file: Path, text: str) -> None:
    """Replace it in one step: a running agent reads the old text or the new one, never half of one."""
    written = file.with_suffix(".new")
    written.write_text(text, encoding="utf-8")
    written.chmod(0o600)
    written.replace(file)


@dataclass(frozen=True)
class Machine:
    """A machine with an agent on it: its directory, its config, and what its environment says."""

    home: Path
    variables: dict[str, str]

    @property
    def config(self) -> Path:
        return self.home / "kept" / "agent.json"

    def stored(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(self.config.read_text(encoding="utf-8"))
        return values

    def store(self, **values: Any) -> None:
        """Write its config for its owner only."""
        self.config.parent.mkdir(mode=0o700, exist_ok=True)
        replace(self.config, json.dumps(values))

    def agent(self, *arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        """One command, to its end, in this process: a hundred more would take half a minute to start."""
        argv, out, err = self._argv(*arguments)[2:], StringIO(), StringIO()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with (
                patch.dict(os.environ, environment(self.home, **{**self.variables, **variables}), clear=True),
                patch("sys.stdin", StringIO(stdin)),
                redirect_stdout(out),
                redirect_stderr(err),
            ):
                time.tzset()
                code = as_module().main(argv)
        except SystemExit as ended:
            code = ended.code
        finally:
            time.tzset()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return subprocess.CompletedProcess(argv, code, out.getvalue(), err.getvalue())

    def process(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """The same, as a process of its own."""
        return subprocess.run(
            self._argv(*arguments),
            env=environment(self.home, **{**self.variables, **variables}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )

    @contextmanager
    def running(self, adjust: dict[str, Any] | None = None, **variables: str) -> "Iterator[Running]":
        """`run` as a process, ended with the block. `adjust`: see adjusted.py."""
        argv = self._argv("run", "--verbose")
        if adjust:
            argv = [sys.executable, str(ADJUSTED), json.dumps(adjust), *argv[2:]]
        log = self.home / "run.log"
        with log.open("w") as file:
            process = subprocess.Popen(argv, env=environment(self.home, **{**self.variables, **variables}), stderr=file)
        try:
            yield Running(process, log)
        finally:
            process.kill()
            process.wait()

    def _argv(self, command: str, *arguments: str) -> list[str]:
        return [sys.executable, str(AGENT), "--config", str(self.config), command, *arguments]


@dataclass(frozen=True)
class Running:
    """A process of `run`."""

    process: subprocess.Popen[bytes]
    log: Path

    def printed(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def wait_for(self, words: str, times: int = 1) -> None:
        eventually(lambda: self.printed().count(words) >= times)

    def announce_now(self) -> None:
        self.process.send_signal(signal.SIGHUP)
