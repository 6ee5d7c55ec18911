"""The project's processes, as an operator starts them: `manage.py worker`, `manage.py web`."""

import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proving.bench.contestant import Connection, Contestant
from proving.bench.processes import ContestantFailed, running

LOOK_EVERY_SECONDS = 0.05
START_SECONDS = 30.0

ALIVE = "SELECT EXISTS (SELECT FROM jobs_worker WHERE pid = %s AND stopped_at IS NULL)"


def make_folders(home: Path, size: int) -> None:
    """Make `files`, with one file of `size` bytes, and `repository`."""
    for name in ("files", "repository"):
        (home / name).mkdir()
    (home / "files" / "data").write_bytes(bytes(size))


@contextmanager
def temporary_home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="backlog-bench-home-") as name:
        yield Path(name)


@contextmanager
def worker(contestant: Contestant, url: str, home: Path, queues: str, connection: Connection) -> Iterator[Any]:
    """Run a worker that serves `queues`; yields its process when it is about to claim. Raises: ContestantFailed."""
    arguments = ["manage.py", "worker", "--queues", queues, "--grace", "0"]
    with running(contestant, "become", url=url, arguments=arguments, variables=_variables(home)) as process:
        wait_until(lambda: _is_alive(connection, process.pid), "the worker", process)
        yield process


@contextmanager
def web(contestant: Contestant, url: str, home: Path) -> Iterator[int]:
    """Serve the web pages and the API. Yields the port. Raises: ContestantFailed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    arguments = ["manage.py", "web", "--listen", f"127.0.0.1:{port}"]
    with running(contestant, "become", url=url, arguments=arguments, variables=_variables(home)) as process:
        wait_until(lambda: _accepts(port), "the web server", process)
        yield port


def wait_until(condition: Callable[[], bool], what: str, process: Any, longest: float = START_SECONDS) -> None:
    """Return when `condition` holds. Raises: ContestantFailed if `process` ends before, or if it takes too long."""
    deadline = time.monotonic() + longest
    while not condition():
        if process.poll() is not None:
            raise ContestantFailed(f"{what} has ended")
        if time.monotonic() > deadline:
            raise ContestantFailed(f"{what} did not come within {longest:.0f} s")
        time.sleep(LOOK_EVERY_SECONDS)


def _variables(home: Path) -> dict[str, str]:
    return {"BACKUPSCHED_VAR": str(home / "var")}


def _is_alive(connection: Connection, pid: int) -> bool:
    return connection.execute(ALIVE, [pid]).fetchone() == (True,)


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
