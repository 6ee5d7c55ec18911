"""Whoever descends from a kept program ends with it."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.documents import ROOT
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.slow

STARTS_ONE_MORE_WHEN_IT_IS_ENDED = """
import pathlib, signal, subprocess, sys, time
def end(*_):
    late = subprocess.Popen(["sleep", "600"], start_new_session=True)
    pathlib.Path(sys.argv[1], "late").write_text(str(late.pid))
    raise SystemExit
signal.signal(signal.SIGTERM, end)
pathlib.Path(sys.argv[1], "begun").touch()
while True:
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere orphans are not handed to the keeper")
def test_what_a_program_starts_while_it_is_being_ended_is_ended_too(tmp_path: Path) -> None:
    program = [sys.executable, "-c", STARTS_ONE_MORE_WHEN_IT_IS_ENDED, str(tmp_path)]
    keeper = subprocess.Popen([sys.executable, "-m", "demo.keeper", *program], cwd=ROOT, stdin=subprocess.PIPE)
    eventually((tmp_path / "begun").exists)
    keeper.communicate(timeout=PATIENCE)  # closes its standard input: whoever started it is gone
    late = int((tmp_path / "late").read_text())
    assert not psutil.pid_exists(late)
