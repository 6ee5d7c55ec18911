"""Real peers for the engines: rclone serves directories on a loopback address of this test process alone."""

import contextlib
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from engines import engine_for
from engines.base import BackupTask, EngineProgress, EngineResult, SourceSpec
from external.processes.programs import find_rclone
from storage import layout
from storage.places.location import of_directory
from storage.points import manifests
from storage.points.files import path_in
from storage.points.manifests import Entry
from tests.waiting import PATIENCE, eventually

USER = "backup"
PASSWORD = "correct-horse-battery"
ACCESS_KEY = "accesskey12345"
STARTED_AT = datetime(2026, 11, 21, 6, 57, 55, tzinfo=UTC)


def loopback_address(process: int | None = None) -> str:
    """One for each process of this host: their numbers have 22 bits at the most."""
    number = process or os.getpid()
    return f"127.{80 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


LOWEST_PORT, HIGHEST_PORT = 10_000, 30_000
"""Below those that systems give to callers: there a call could take the port before its server does."""

_numbers = count(97 * os.getpid())


def free_port(address: str) -> int:
    """One without a listener: not the same twice, and not the one that a process beside gets."""
    for number in _numbers:
        port = LOWEST_PORT + number % (HIGHEST_PORT - LOWEST_PORT)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((address, port))
            break
    return port


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def new_host_key(file: Path) -> str:
    """Write a private host key; return the line that pins it."""
    key = Ed25519PrivateKey.generate()
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    )
    file.chmod(0o600)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return public.decode()


@contextlib.contextmanager
def serving(kind: str, directory: Path, *arguments: str, caches: bool = True) -> Iterator[tuple[str, int]]:
    """Serve `directory` as `kind` (sftp, s3, webdav) until the block ends, which kills it. Yields address and
    port. `caches`: whether a server of that kind keeps a cache of directories, which is for a moment only then."""
    address = loopback_address()
    port = free_port(address)
    command = (
        find_rclone(),
        "serve",
        kind,
        str(directory),
        f"--addr={address}:{port}",
        "--config=",
        *(("--dir-cache-time=1ms",) if caches else ()),
        *arguments,
    )
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory.parent)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            eventually(lambda: answers(address, port))
            yield address, port
        finally:
            server.kill()


def answers(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def listening(talk: Callable[[socket.socket], object]) -> Iterator[tuple[str, int]]:
    """Let `talk` speak with each caller, in a thread of its own. Yields address and port."""

    def serve(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.settimeout(PATIENCE)
            talk(client)

    def listen() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server((loopback_address(), 0)) as listener:
        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE)


@contextlib.contextmanager
def answering(
    handler: type[BaseHTTPRequestHandler], address: str = "", port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[ThreadingHTTPServer]:
    """An HTTP server whose requests `handler` answers, until the block ends."""
    address = address or loopback_address()
    with ThreadingHTTPServer((address, port or free_port(address)), handler) as server:
        server.daemon_threads = True
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


@contextlib.contextmanager
def sftp_host(directory: Path, *arguments: str) -> Iterator[SourceSpec]:
    key = directory.parent / f"{directory.name}-host-key"
    pinned = new_host_key(key)
    with serving("sftp", directory, f"--user={USER}", f"--pass={PASSWORD}", f"--key={key}", *arguments) as (
        address,
        port,
    ):
        yield specification("sftp", address, port=port, path="/", options={"user": USER}, host_key=pinned)


@contextlib.contextmanager
def s3_bucket(directory: Path) -> Iterator[SourceSpec]:
    """The directory is the server's: each directory in it is a bucket; the source is bucket `photos`."""
    with serving("s3", directory, f"--auth-key={ACCESS_KEY},{PASSWORD}") as (address, port):
        yield specification(
            "s3", f"http://{address}:{port}", path="photos", options={"access_key_id": ACCESS_KEY, "provider": "Rclone"}
        )


@contextlib.contextmanager
def webdav_share(directory: Path) -> Iterator[SourceSpec]:
    with serving("webdav", directory, f"--user={USER}", f"--pass={PASSWORD}") as (address, port):
        yield specification("webdav", f"http://{address}:{port}", path="", options={"user": USER})


@contextlib.contextmanager
def mounted(directory: Path, *options: str) -> Iterator[Path]:
    """What `mount OPTIONS…` mounts on `directory`, which is made. Skips the test where that is not permitted."""
    directory.mkdir()
    if subprocess.run(["mount", *options, str(directory)], check=False, capture_output=True).returncode:
        pytest.skip("this account may not mount anything here")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def small_disk(directory: Path, size: int) -> contextlib.AbstractContextManager[Path]:
    """A real file system of `size` bytes on `directory`. Skips the test where that is not permitted."""
    return mounted(directory, "-t", "tmpfs", "-o", f"size={size}", "none")


def specification(kind: str, address: str = "", **fields: Any) -> SourceSpec:
    usual: dict[str, Any] = {
        "name": f"a {kind} source",
        "port": None,
        "path": "/",
        "options": {},
        "secret": PASSWORD,
        "host_key": "",
    }
    return SourceSpec(kind=kind, address=address, **(usual | fields))


def local_folder(directory: Path, **options: str) -> SourceSpec:
    return specification("local", path=str(directory), options=options, secret=None)


def task_for(source: SourceSpec, destination: Path, **fields: Any) -> BackupTask:
    """Into a folder of this host; `location` and `folder` say otherwise."""
    usual: dict[str, Any] = {
        "location": of_directory(destination.parent),
        "folder": destination.name,
        "started_at": STARTED_AT,
        "policy": "nightly",
        "connect_timeout": PATIENCE,
    }
    return BackupTask(source=source, **(usual | fields))


def run(
    task: BackupTask,
    on_progress: Callable[[EngineProgress], object] = lambda progress: None,
    stop: threading.Event | None = None,
) -> EngineResult:
    """Run the engine of the task's kind and of the format of its repository, in this process."""
    engine = engine_for(task.source.kind, task.location.format)
    return engine.run(task, on_progress=on_progress, stop=stop or threading.Event())


def back_up(source: SourceSpec, destination: Path, **fields: Any) -> EngineResult:
    """A run of `task_for` the same."""
    return run(task_for(source, destination, **fields))


def point(destination: Path, name: str) -> dict[str, Entry]:
    """Path → entry of the point of an assignment whose folder is `destination`."""
    return {entry.path: entry for entry in manifests.read(destination / f"manifests/{name}.jsonl.gz")}


def points(destination: Path) -> list[str]:
    """The names of an assignment's points, the first one first."""
    return layout.by_time(each.name.partition(".")[0] for each in destination.glob("manifests/*.jsonl.gz"))


def held(destination: Path, name: str = "") -> dict[str, str]:
    """Path → text of each file of the newest point, or of another one; none if there is no point."""
    if not (name := name or next(iter(points(destination)[::-1]), "")):
        return {}
    kept = (each for each in point(destination, name).values() if each.kind == "file" and each.is_kept)
    return {each.path: Path(os.fsdecode(path_in(destination / "files", each.place))).read_text() for each in kept}


def write_files(directory: Path, **files: str) -> Path:
    """Write text files: `write_files(d, **{"a/b.txt": "text"})`."""
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def tree(directory: Path) -> dict[str, str]:
    """Relative path → text, of all files below `directory`; none of manifests."""
    found = {str(path.relative_to(directory)): path for path in sorted(directory.rglob("*")) if path.is_file()}
    return {name: "" if path.parent.name == "manifests" else path.read_text() for name, path in found.items()}
