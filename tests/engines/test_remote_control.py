"""Orders reach an rclone that is slow to take them, and it ends when they are carried out; one that is killed in the
middle of a file costs no other file.
"""

import os
import signal
import socket
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engines.base import EngineProgress, Verdict
from engines.rclone.run import RcloneRun
from storage.places import remote_control
from storage.places.remotes import location_of
from tests.engines.peers import back_up, held, run, sftp_host, task_for, write_files
from tests.engines.served import serving
from tests.processes import below

STALL_SECONDS = 20.0
"""A run that waits for an rclone that got no order ends by then, and has failed."""


def test_an_rclone_whose_socket_does_not_listen_yet_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket has a file from when it is bound: a slow machine lets time pass before it listens."""
    asked, connect, serve = Event(), remote_control._Connection.connect, RcloneRun.serve

    def connecting(connection: remote_control._Connection) -> None:
        try:
            connect(connection)
        finally:
            asked.set()

    def late(run: RcloneRun, arguments: tuple[str, ...]) -> None:
        path = next(each for each in arguments if each.startswith("--rc-addr=")).partition("unix://")[2]
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.bind(path)
            assert asked.wait(60)
        Path(path).unlink()
        serve(run, arguments)

    monkeypatch.setattr(remote_control._Connection, "connect", connecting)
    monkeypatch.setattr(RcloneRun, "serve", late)
    files = write_files(tmp_path / "files", same="same", **{"dot.": "dot"})
    with sftp_host(files) as source:
        result = back_up(source, tmp_path / "copy", stall_timeout=STALL_SECONDS)
    assert result.verdict is Verdict.SUCCEEDED, result
    assert held(tmp_path / "copy")["dot."] == "dot"


def test_an_order_to_quit_that_did_not_get_through_is_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, ask = list[str](), remote_control.ask

    def refusing(socket_file: Path, what: str, order: dict[str, Any], *seconds: float) -> dict[str, Any]:
        orders.extend({what} - {"core/stats"})
        if orders.count("core/quit") == 1:
            raise ConnectionResetError
        return ask(socket_file, what, order, *seconds)

    monkeypatch.setattr(remote_control, "ask", refusing)
    files = write_files(tmp_path / "files", same="same", **{"dot.": "dot"})
    with sftp_host(files) as source:
        result = back_up(source, tmp_path / "copy", stall_timeout=STALL_SECONDS)
    assert result.verdict is Verdict.SUCCEEDED, result
    assert orders == ["operations/stat", "operations/copyfile", "core/quit", "core/quit"]


@pytest.mark.parametrize("times", [pytest.param(1, marks=pytest.mark.slow), 9])
@pytest.mark.parametrize("kind", ["webdav", *(pytest.param(each, marks=pytest.mark.slow) for each in ("sftp", "s3"))])
def test_one_that_is_killed_in_the_middle_of_a_file_costs_that_file_alone(
    kind: str, times: int, tmp_path: Path
) -> None:
    """A share keeps what came of it, which is not the file."""
    contents, killed, seen = {"a": "a", "a.": "a.", "large.": "x" * 300_000, "z.": "z."}, set[int](), 0
    options = {"bwlimit": "60K"}

    def kill(progress: EngineProgress) -> None:
        nonlocal seen
        if progress.bytes_done > seen + 10_000 and len(killed) < times:  # only the large file has as many
            seen = progress.bytes_done
            for each in below("rcd"):
                killed.add(each.pid)
                os.kill(each.pid, signal.SIGKILL)
        if len(killed) == times:
            options.clear()

    files = write_files(tmp_path / "files", **contents)
    with sftp_host(files) as source, serving(kind, tmp_path / "served") as (settings, secrets, path):
        location = location_of(path, settings, secrets, None)
        task = task_for(source, tmp_path, location=location, folder="copy", options=options)
        result = run(task, kill)
    assert (below("rcd"), bool(killed)) == ([], True)
    came = {name: text for name, text in contents.items() if times == 1 or name != "large."}
    assert (result.files, result.size) == (len(came), sum(map(len, came.values()))), result
    said = ["large.: rclone was ended by signal 9 from outside"]
    assert list(result.warnings[1:]) == (said if times > 1 else [])
