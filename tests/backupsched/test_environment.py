"""Settings from the environment: numbers, and where a checkout and an installed package keep what they write."""

import ast
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from backupsched.environment import number, seconds, web_address, whole
from backupsched.places import checkout_of, secret_key, usual_var_directory
from tests.documents import ROOT
from tests.product import modules
from tests.waiting import PATIENCE

NAME = "BACKUPSCHED_TEST_NUMBER"
CHECKOUT = Path("/srv/checkout")
ADMINISTRATOR, USER = 0, 1000


@pytest.mark.parametrize(
    ("read", "written", "found"),
    [
        *((number, written, found) for written, found in (("2.5", 2.5), ("", 7), (" ", 7), (None, 7), ("1e3", 1000))),
        *((seconds, written, found) for written, found in (("2m", 120), ("90", 90), (None, 7))),
        (whole, "4", 4),
    ],
)
def test_a_number_is_what_the_variable_says_or_the_default(read, written, found, monkeypatch):
    if written is not None:
        monkeypatch.setenv(NAME, written)
    assert read(NAME, 7) == found


@pytest.mark.parametrize(
    ("read", "written", "what"),
    [
        *((number, written, "a number") for written in ("abc", "nan", "inf", "-inf", "1,5", "9" * 400)),
        (seconds, "soon", "a number"),
        (whole, "2.5", "a whole number"),
    ],
)
def test_what_is_no_number_is_reported_with_its_name(read, written, what, monkeypatch):
    monkeypatch.setenv(NAME, written)
    with pytest.raises(SystemExit, match=f"{NAME} must be {what}, such as 7, not "):
        read(NAME, 7)


@pytest.mark.parametrize("written", ["hc.example.org/t0ken", "ftp://hc.example.org/t0ken", "https:///t0ken", "t0 ken"])
def test_what_is_no_url_is_reported_without_its_token(written, monkeypatch):
    monkeypatch.setenv(NAME, "https://hc.example.org:8443/ping/t0ken?a=b")
    assert web_address(NAME).endswith("/ping/t0ken?a=b")
    monkeypatch.setenv(NAME, written)
    with pytest.raises(SystemExit, match=f"^{NAME} must be a URL") as ended:
        web_address(NAME)
    assert "t0" not in str(ended.value)


def test_a_command_reports_it_and_shows_no_traceback():
    ended = subprocess.run(
        [sys.executable, "manage.py", "backlog"], cwd=ROOT, env=os.environ | {"BACKUPSCHED_BREAKER_AFTER": "three"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr.startswith("Error: BACKUPSCHED_BREAKER_AFTER must be a number, such as 3, not 'three'")


@pytest.mark.parametrize(
    ("environment", "user", "checkout", "expected"),
    [
        ({}, USER, CHECKOUT, "/srv/checkout/var"),
        ({}, ADMINISTRATOR, CHECKOUT, "/srv/checkout/var"),
        ({}, ADMINISTRATOR, None, "/var/lib/backupsched"),
        ({"XDG_STATE_HOME": "/state"}, ADMINISTRATOR, None, "/var/lib/backupsched"),
        ({"XDG_STATE_HOME": "/state"}, USER, None, "/state/backupsched"),
        ({"XDG_STATE_HOME": "state"}, USER, None, "/home/anna/.local/state/backupsched"),
        ({}, USER, None, "/home/anna/.local/state/backupsched"),
    ],
)
def test_what_is_written_lies_where_the_checkout_or_the_user_says(monkeypatch, environment, user, checkout, expected):
    monkeypatch.setenv("HOME", "/home/anna")
    assert usual_var_directory(environment, user, checkout) == Path(expected)


def test_a_user_without_a_home_is_asked_for_a_directory(monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.getuid", lambda: 4_000_000_000)
    with pytest.raises(ImproperlyConfigured, match="name a directory in BACKUPSCHED_VAR"):
        usual_var_directory({}, USER, None)


def test_a_checkout_is_known_by_its_manage_py(tmp_path):
    assert checkout_of(tmp_path / "backupsched") is None
    (tmp_path / "manage.py").touch()
    assert checkout_of(tmp_path / "backupsched") == tmp_path
    assert settings.AGENT.is_file()


def test_messages_name_the_command_line_as_the_installation_has_it():
    """A wheel has no manage.py: `jobs.conf.PROGRAM` says what it has."""
    allowed = {"backupsched/places.py", "jobs/conf.py", "operations/checks.py"}
    found = set()
    for path, tree in modules("manage.py"):
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
        if any("manage.py" in node.value and id(node) not in prose for node in texts):
            found.add(path)
    assert found == allowed


def test_an_empty_key_is_said_with_its_place_and_no_other_is_made(tmp_path: Path) -> None:
    (tmp_path / "secret_key").touch()
    with pytest.raises(ImproperlyConfigured, match=r"secret_key is empty.* restore it from a copy"):
        secret_key(tmp_path)
    (tmp_path / "secret_key").unlink()
    assert secret_key(tmp_path) == secret_key(tmp_path) != ""


def test_containers_whose_processes_have_one_number_agree_on_one_key(tmp_path: Path) -> None:
    begin = Barrier(8, timeout=PATIENCE)

    def started(_: int) -> str:
        begin.wait()
        return secret_key(tmp_path)

    with ThreadPoolExecutor(8) as together:
        assert set(together.map(started, range(8))) == {(tmp_path / "secret_key").read_text()}
    assert [each.name for each in tmp_path.iterdir()] == ["secret_key"]


def test_ctrl_c_ends_a_command_without_a_traceback() -> None:
    script = (
        "import signal, sys; from backupsched import command_line\n"
        "command_line._run = lambda: signal.raise_signal(signal.SIGINT)\n"
        "sys.exit(command_line.main())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    "where",
    [
        "os.register_at_fork(before=stop); os.waitpid(os.fork() or os._exit(0), 0)",
        "weakref.finalize(Object(), stop)",
        "interrupts.Timer = InterruptedTimer; weakref.finalize(Object(), stop)",
    ],
    ids=["around a fork", "as an object is collected", "as it is delivered again"],
)
def test_ctrl_c_is_not_lost_where_python_ignores_every_error(where: str) -> None:
    script = f"""
import os, signal, sys, threading, weakref
from backupsched import command_line
from external.processes import interrupts

class Object:
    pass

class InterruptedTimer(threading.Timer):
    "A machine so busy that the signal comes before the thread that starts its sender is back."
    def start(self):
        interrupts.Timer = threading.Timer
        self.function, self.args = int, ()
        super().start()
        stop()

def stop():
    signal.raise_signal(signal.SIGINT)

def run():
    {where}
    threading.Event().wait({PATIENCE})

command_line._run = run
sys.exit(command_line.main())
"""
    # since 3.12 Python warns a script that forks next to a thread, which the second signal comes from
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
