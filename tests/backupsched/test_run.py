"""`run`: web, worker and qcluster together, started again when they die, and ended together."""

import os
import pty
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from django.core.management import CommandError, call_command

from external.processes import supervision
from external.processes.supervision import SupervisedProcess
from tests.documents import ROOT
from tests.engines.peers import free_port
from tests.waiting import PATIENCE, eventually


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"workers": 0}, "--workers: at least 1"),
        ({"concurrency": 0}, "--concurrency: at least 1"),
        ({"listen": "here"}, "--listen here: HOST:PORT"),
        ({"listen": "127.0.0.1:70000"}, "cannot listen on 127.0.0.1:70000: a port is at most 65535"),
        ({"listen": "192.0.2.1:80"}, "cannot listen on 192.0.2.1:80: "),
        ({"listen": "..:80"}, "cannot listen on ..:80: it is not the name of a host"),
    ],
)
def test_what_cannot_start_is_refused_before_anything_is_started(options: dict[str, Any], error: str) -> None:
    with pytest.raises(CommandError) as caught:
        call_command("run", **options)
    assert str(caught.value).startswith(error)
    assert caught.value.returncode == 2


def test_a_port_that_is_taken_is_named_with_who_has_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CommandError, match=rf"{listen}: .* \(process {os.getpid()}\) listens there"):
            call_command("run", listen=listen)


def test_a_command_with_odd_characters_is_one_argument_each() -> None:
    text = supervision.configuration([SupervisedProcess("web", ("web", "--listen", "a b%d'c", "Disk #2 ;"))])
    quoted = r"'a b%%d'\"'\"'c' 'Disk ''#2 '';'"  # a space and either character would begin a comment
    assert re.search(rf"^command = .* -m backupsched web --listen {quoted}$", text, re.MULTILINE)


def test_a_log_that_takes_nothing_for_a_while_costs_lines_and_ends_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def full_at_1000_bytes() -> None:  # as a disk would be
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

    with (
        subprocess.Popen(("sleep", "60")) as supervisor,
        log.open("a") as taken,
        subprocess.Popen(
            ("/bin/sh", "-c", supervision.CARRIER, str(supervisor.pid)), stdin=subprocess.PIPE, stdout=taken,
            stderr=subprocess.PIPE, preexec_fn=full_at_1000_bytes,
        ) as carrier,
    ):  # fmt: skip
        assert carrier.stdin is not None
        assert carrier.stderr is not None
        carrier.stdin.write(b"x" * 2000)
        carrier.stdin.flush()
        assert carrier.stderr.readline()
        os.truncate(log, 0)
        carrier.stdin.write(b"later")
        carrier.stdin.close()
        carrier.wait(PATIENCE)
        supervisor.kill()
    assert (log.read_bytes(), supervisor.returncode) == (b"later", -signal.SIGKILL)


AS_ANOTHER = """
import os
from external.processes import supervision
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
supervision.become(("/bin/sh", "-c", "echo heard >>/dev/stdout"), {})
"""


def test_the_terminal_of_another_account_gets_the_output() -> None:
    near, far = pty.openpty()
    os.fchmod(far, 0o600 if os.geteuid() == 0 else 0)
    process = subprocess.Popen((sys.executable, "-c", AS_ANOTHER), cwd=ROOT, stdout=far, stderr=far)
    os.close(far)
    try:
        assert os.read(near, 1000) == b"heard\r\n"
        assert process.wait() == 0
    finally:
        os.close(near)
        process.kill()
        process.wait()


AT_A_TERMINAL = """
import fcntl, os, sys, termios
from pathlib import Path
from external.processes import supervision
fcntl.ioctl(1, termios.TIOCSCTTY, 0)
process = supervision.SupervisedProcess("one", ("-c", "echo awake; exec sleep 300"))
supervision.become(supervision.command([process], Path(sys.argv[1]), ("/bin/sh",)), os.environ)
"""


def test_a_terminal_that_is_closed_ends_all(tmp_path: Path) -> None:
    near, far = pty.openpty()
    argv, family = (sys.executable, "-c", AT_A_TERMINAL, str(tmp_path)), []
    process = subprocess.Popen(argv, cwd=ROOT, stdin=far, stdout=far, stderr=far, start_new_session=True)
    os.close(far)
    try:
        said = b""
        while b"awake" not in said:
            said += os.read(near, 4096)
        family = psutil.Process(process.pid).children(recursive=True)
        os.close(near)
        assert process.wait(PATIENCE) == 0
        assert psutil.wait_procs(family, PATIENCE)[1] == []
    finally:
        for each in (process, *family):
            with suppress(psutil.Error):
                each.kill()
        process.wait()


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the server's account can pass through."""
    with tempfile.TemporaryDirectory(prefix="backupsched-tests-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.fixture
def running(home: Path) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """The scheduler with an embedded database of its own: its process, the pages' address and its log."""
    environment = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "BACKUPSCHED_VAR")}
    environment |= {"BACKUPSCHED_VAR": str(home / "var"), "DJANGO_SETTINGS_MODULE": "backupsched.settings"}
    program = (sys.executable, str(ROOT / "manage.py"))
    subprocess.run((*program, "migrate", "--verbosity", "0"), cwd=home, env=environment, check=True)
    listen, log = f"127.0.0.1:{free_port('127.0.0.1')}", home / "log"
    with log.open("wb") as output:
        command = (*program, "run", "--listen", listen, "--grace", "5s")
        process = subprocess.Popen(command, cwd=home, env=environment, stdout=output, stderr=output)
        try:
            yield process, f"http://{listen}/admin/login/", log
        finally:
            left = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            for each in left:
                each.kill()
            process.wait()
            subprocess.run((*program, "database", "stop"), cwd=home, env=environment, check=True)


@pytest.mark.slow
def test_what_dies_is_started_again_and_all_end_together(running: tuple[subprocess.Popen[bytes], str, Path]) -> None:
    process, page, log = running

    def answers() -> bool:
        try:
            return httpx.get(page, timeout=PATIENCE).status_code == 200
        except httpx.TransportError:
            return False

    def served() -> dict[str, psutil.Process]:
        found = {}
        for each in psutil.Process(process.pid).children():
            with suppress(psutil.Error):  # it ends at this moment
                if (argv := each.cmdline())[1:2] == [str(ROOT / "manage.py")]:
                    found[argv[2]] = each
        return found

    eventually(answers)
    before = served()
    assert sorted(before) == ["qcluster", "web", "worker"]
    for name in ("web", "worker"):
        before[name].kill()

    def begun_again() -> bool:
        now = served()
        return all(name in now and now[name] != before[name] for name in ("web", "worker"))

    eventually(lambda: begun_again() and answers())
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    assert process.wait(2 * PATIENCE) == 0, log.read_text()
    _, left = psutil.wait_procs(family, PATIENCE)
    assert left == []
    assert "worker1" in log.read_text()
