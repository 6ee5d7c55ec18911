"""The runner with real processes: endings, bounds, and that nothing is left behind."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from sources.processes import runner
from sources.processes.runner import Command, Ending, LineSplitter
from tests.sources.engines.peers import eventually
from tests.waiting import PATIENCE


def python(code: str, **fields: float) -> Command:
    return Command((sys.executable, "-c", code), **fields)  # type: ignore[arg-type]


def never() -> threading.Event:
    return threading.Event()


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_lines_of_both_streams_come_in_and_the_exit_code_is_kept() -> None:
    lines: list[str] = []
    code = "import os; os.write(1, b'one\\ntwo\\r\\n'); os.write(2, b'\\xff three'); os._exit(7)"
    ended = runner.run(python(code), stop=never(), on_line=lines.append)
    assert (ended.ending, ended.exit_code) == (Ending.EXITED, 7)
    assert lines == ["one", "two", "\ufffd three"] == list(ended.last_lines)


def test_huge_output_is_bounded() -> None:
    code = "import sys; sys.stdout.write('x' * 20_000_000 + '\\n'); [print(n) for n in range(100_000)]"
    longest = 0

    def measure(line: str) -> None:
        nonlocal longest
        longest = max(longest, len(line))

    ended = runner.run(python(code), stop=never(), on_line=measure)
    assert longest == runner.LINE_LIMIT
    assert len(ended.last_lines) == runner.KEPT_LINES
    assert ended.last_lines[-1] == "99999"


def test_the_splitter_holds_no_more_than_one_cut_line() -> None:
    splitter = LineSplitter(limit=4)
    assert [list(splitter.feed(chunk)) for chunk in (b"abc", b"defgh", b"\nij\nk")] == [[], [], ["abcd", "ij"]]
    assert list(splitter.rest()) == ["k"]


def test_a_program_gets_no_input_and_only_the_environment_meant_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_ANOTHER_SOURCE", "s3cr3t")
    code = (
        "import os, sys; print(sys.stdin.read() == '', 'SECRET_OF_ANOTHER_SOURCE' in os.environ, os.environ['MINE'], "
        "os.getsid(0) == os.getpid())"
    )
    command, stopped = Command((sys.executable, "-c", code), {"MINE": "yes"}), threading.Event()
    assert runner.run(command, stop=never()).last_lines == ("True False yes True",)
    stopped.set()
    assert runner.run(command, stop=stopped).last_lines == ()  # not even started


def test_a_program_reads_what_it_is_given_and_one_that_does_not_ends_all_the_same() -> None:
    given = b"x" * 1_000_000
    code = "import sys; print(len(sys.stdin.buffer.read()))"
    assert runner.run(Command((sys.executable, "-c", code), given=given), stop=never()).last_lines == ("1000000",)
    assert runner.run(Command((sys.executable, "-c", "pass"), given=given), stop=never()).exit_code == 0


def test_a_stop_is_polite_first() -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('tidied up'), sys.exit(3)))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)"
    )
    stop = threading.Event()
    ended = runner.run(python(code, grace=PATIENCE), stop=stop, on_line=lambda line: stop.set())
    assert (ended.ending, ended.exit_code, ended.last_lines) == (Ending.STOPPED, 3, ("ready", "tidied up"))


def test_a_program_that_ignores_the_polite_signal_is_killed_after_the_grace() -> None:
    code = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(60)"
    )
    stop = threading.Event()
    ended = runner.run(python(code, grace=0.3), stop=stop, on_line=lambda line: stop.set())
    assert (ended.ending, ended.exit_code) == (Ending.STOPPED, -signal.SIGKILL)


def test_a_program_that_shows_no_sign_of_life_has_stalled() -> None:
    code = "import time\nwhile True: print('chatter', flush=True); time.sleep(0.05)"
    ended = runner.run(python(code, stall_timeout=0.5), stop=never(), sign_of_life=lambda: "always the same")
    assert ended.ending is Ending.STALLED


def test_a_child_that_the_program_left_behind_is_gone_too() -> None:
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'])\n"
        "print(child.pid, flush=True)"
    )
    ended = runner.run(python(code), stop=never())
    eventually(lambda: is_gone(int(ended.last_lines[0])), "the child is gone")


def test_nothing_is_left_running_when_a_callback_raises() -> None:
    pids: list[int] = []

    def fail(line: str) -> None:
        pids.append(int(line))
        raise RuntimeError("the listener failed")

    with pytest.raises(RuntimeError, match="the listener failed"):
        runner.run(
            python("import os, time; print(os.getpid(), flush=True); time.sleep(60)"), stop=never(), on_line=fail
        )
    assert is_gone(pids[0])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_a_program_dies_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    worker = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from sources.processes import runner

code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
command = runner.Command((sys.executable, "-c", code))
tell = lambda line: print(line, flush=True)
with ThreadPoolExecutor() as pool:
    pool.submit(runner.run, command, stop=threading.Event(), on_line=tell).result()
"""
    root = Path(runner.__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", worker], cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert not is_gone(pid)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        eventually(lambda: is_gone(pid), "the program is gone")
