"""Orders reach an rclone that is slow to take them, and it ends when they are carried out."""

import socket
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engines.base import Verdict
from engines.rclone.run import RcloneRun
from storage.places import remote_control
from tests.engines.peers import back_up, held, sftp_host, write_files

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
