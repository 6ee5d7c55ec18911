"""The whole demo, as a user runs it, in a var directory of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings

from backupsched.embedded import Server
from tests.engines.peers import free_port
from tests.waiting import eventually

LONGEST_SECONDS = 400
"""Half a minute on two idle cores, which six processes may share."""

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(LONGEST_SECONDS + 200)]


@pytest.fixture(scope="module")
def var_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of an installation, in which the demo makes its own directory."""
    path = tmp_path_factory.mktemp("demo") / "var"
    yield path
    Server(path / "demo").destroy()


def start(var_dir: Path, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """The demo in the environment of an installation whose database is away and which has TLS."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment |= {"DATABASE_URL": "postgresql://127.0.0.1:1/none", "BACKUPSCHED_TLS": "1"}
    return subprocess.Popen(
        [sys.executable, "manage.py", "demo", "--port", str(free_port("127.0.0.1")), *arguments],
        cwd=settings.BASE_DIR,
        env={**environment, "BACKUPSCHED_VAR": str(var_dir)},
        stdin=subprocess.DEVNULL,
        text=True,
        **options,
    )


def processes_of(var_dir: Path) -> list[psutil.Process]:
    """Every process that names the var directory, in its arguments or its environment."""
    found = []
    for process in psutil.process_iter():
        try:
            named = [*process.cmdline(), process.environ().get("BACKUPSCHED_VAR", "")]
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(str(var_dir) in text for text in named):
            found.append(process)
    return found


def test_the_demo_protects_every_reachable_source_beside_an_installation_and_leaves_nothing_behind(var_dir):
    arguments = ("--once", "--json", "--hosts", "5", "--timeout", str(LONGEST_SECONDS))
    with start(var_dir, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        stdout, stderr = demo.communicate()
    assert demo.returncode == 0, stderr
    summary = json.loads(stdout)
    assert summary.keys() == {"sources", "restored", "protected", "reachable", "seconds"}
    sources = {source["name"]: source for source in summary["sources"]}
    assert {source["kind"] for source in summary["sources"]} == {"sftp", "s3", "webdav", "local", "postgresql"}
    refused = sources.pop("demo-refuses-password")
    assert (refused["reachable"], refused["identical"]) == (False, None)
    assert "refused the credentials" in refused["outcome"]
    assert refused["attempts"] >= 1
    assert all(source["identical"] and source["bytes"] > 0 and source["next_backup_at"] for source in sources.values())
    assert summary["protected"] == summary["reachable"] == len(sources)
    assert sources["demo-vanisher"]["attempts"] in (1, 2), "it may be back before its run gives it up"
    assert "demo-vanisher vanishes in the middle of its backup" in stderr
    assert "log in as admin with the password" in stderr
    assert "Traceback" not in stderr
    assert processes_of(var_dir) == []
    assert list(var_dir.iterdir()) == []


def test_an_ended_demo_ends_everything_it_started(var_dir, tmp_path):
    log = tmp_path / "log"
    with log.open("w") as output:
        demo = start(var_dir, "--hosts", "5", stdout=output, stderr=subprocess.STDOUT)
    eventually(lambda: "starting web" in log.read_text() or demo.poll() is not None, LONGEST_SECONDS)
    assert demo.poll() is None, log.read_text()
    eventually(lambda: len(processes_of(var_dir)) > 8, LONGEST_SECONDS)
    eventually(lambda: re.search("(demo-\\S+) is closed.*\\1 comes up", log.read_text(), re.DOTALL), LONGEST_SECONDS)
    with start(var_dir, "--once", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as second:
        answer, complaint = second.communicate()
    assert (second.returncode, answer) == (1, "")
    assert "another demo runs" in complaint
    demo.send_signal(signal.SIGINT)
    demo.wait(LONGEST_SECONDS)
    assert processes_of(var_dir) == list(var_dir.iterdir()) == []
    assert "Traceback" not in log.read_text()
