"""The runner with real processes: endings, bounds, and that nothing is left behind."""

import signal
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

from external.processes import runner
from external.processes.runner import Command, EndReason, LineSplitter, ProgramEnd
from tests.engines.peers import is_gone
from tests.waiting import PATIENCE, eventually


def python(
    code: str, stop: Event | None = None, sign_of_life: object = None, **fields: object
) -> tuple[ProgramEnd, list[str]]:
    """The end of a program, and its lines. A `stop` is set at the first line."""
    lines: list[str] = []

    def take(line: str) -> None:
        lines.append(line)
        if stop:
            stop.set()

    command = Command((sys.executable, "-c", code), **fields)  # type: ignore[arg-type]
    signs = {"sign_of_life": lambda: sign_of_life} if sign_of_life else {}
    return runner.run(command, stop=stop or Event(), on_line=take, **signs), lines  # type: ignore[arg-type]


def test_lines_of_both_streams_come_in_bounded_and_the_exit_code_is_kept() -> None:
    ended, lines = python("import os; os.write(1, b'one\\ntwo\\r\\n'); os.write(2, b'\\xff three'); os._exit(7)")
    assert (ended.ending, ended.exit_code) == (EndReason.EXITED, 7)
    assert lines == ["one", "two", "\ufffd three"] == list(ended.last_lines)
    code = "import sys; sys.stdout.write('x' * 20_000_000 + '\\n'); [print(n) for n in range(100_000)]"
    ended, lines = python(code)
    assert max(map(len, lines)) == runner.LINE_LIMIT
    assert (len(ended.last_lines), ended.last_lines[-1]) == (runner.KEPT_LINES, "99999")
    splitter = LineSplitter(limit=4)  # which holds no more than one cut line
    assert [list(splitter.feed(chunk)) for chunk in (b"abc", b"defgh", b"\nij\nk")] == [[], [], ["abcd", "ij"]]
    assert list(splitter.rest()) == ["k"]


def test_a_program_gets_only_the_environment_and_input_meant_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_ANOTHER_SOURCE", "s3cr3t")
    code = (
        "import os, sys; print(sys.stdin.read() == '', 'SECRET_OF_ANOTHER_SOURCE' in os.environ, os.environ['MINE'], "
        "os.getsid(0) == os.getpid())"
    )
    assert python(code, environment={"MINE": "yes"})[1] == ["True False yes True"]
    given = b"x" * 1_000_000
    assert python("import sys; print(len(sys.stdin.buffer.read()))", given=given)[1] == ["1000000"]
    assert python("pass", given=given)[0].exit_code == 0, "one that does not read it ends all the same"


def test_a_stop_is_polite_first_and_a_program_that_ignores_it_is_killed_after_the_grace() -> None:
    tidy = "lambda *_: (print('tidied up'), sys.exit(3))"
    code = "import signal, sys, time; signal.signal(signal.SIGTERM, {}); print('ready', flush=True); time.sleep(60)"
    ended, lines = python(code.format(tidy), stop := Event(), grace=PATIENCE)
    assert (ended.ending, ended.exit_code, lines) == (EndReason.STOPPED, 3, ["ready", "tidied up"])
    ended, _ = python(code.format("signal.SIG_IGN"), Event(), grace=0.3)
    assert (ended.ending, ended.exit_code) == (EndReason.STOPPED, -signal.SIGKILL)
    assert python("print()", stop)[1] == [], "one that is stopped before is not even started"


def test_a_program_that_shows_no_sign_of_life_has_stalled() -> None:
    code = "import time\nwhile True: print('chatter', flush=True); time.sleep(0.05)"
    assert python(code, sign_of_life="always the same", stall_timeout=0.5)[0].ending is EndReason.STALLED


def test_nothing_is_left_running_by_a_program_that_ends_or_a_callback_that_raises() -> None:
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'])\n"
        "print(child.pid, flush=True)"
    )
    child = int(python(code)[1][0])
    eventually(lambda: is_gone(child))
    pids: list[int] = []

    def fail(line: str) -> None:
        pids.append(int(line))
        raise RuntimeError("the listener failed")

    command = Command((sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)"))
    with pytest.raises(RuntimeError, match="the listener failed"):
        runner.run(command, stop=Event(), on_line=fail)
    assert is_gone(pids[0])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_a_program_dies_with_a_worker_that_is_killed() -> None:
    worker = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from external.processes import runner

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
        process.kill()
        process.wait()
        eventually(lambda: is_gone(pid))
