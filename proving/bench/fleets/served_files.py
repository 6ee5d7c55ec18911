"""The files of a copy as another host has them: rclone serves their folder on this host."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from engines.base import SourceSpec
from external.processes.programs import find_rclone
from proving.bench.fleets.services import wait_until
from storage.places.remotes import obscure

USER, PASSWORD = "bench", "bench-of-copies"
LOCAL = "local"


@contextmanager
def source_of(kind: str, folder: Path) -> Iterator[SourceSpec]:
    """A folder on this host, as a source of kind local, sftp or s3."""
    if kind == LOCAL:
        yield SourceSpec("bench", LOCAL, "", None, str(folder), {}, None, "")
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    how: tuple[str, ...]
    key = folder.parent / "host-key"
    if kind == "sftp":
        pinned, how = _new_key(key), ("sftp", str(folder), f"--user={USER}", f"--pass={PASSWORD}", f"--key={key}")
        spec = SourceSpec("bench", kind, "127.0.0.1", port, "/", {"user": USER}, PASSWORD, pinned)
    else:
        how = ("s3", str(folder.parent), f"--auth-key={USER},{PASSWORD}")
        options = {"access_key_id": USER, "provider": "Rclone"}
        spec = SourceSpec("bench", kind, f"http://127.0.0.1:{port}", None, folder.name, options, PASSWORD, "")
    # changes between two copies are seen at once
    argv = (find_rclone(), "serve", *how, f"--addr=127.0.0.1:{port}", "--config=", "--dir-cache-time=1ms")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder.parent)}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_until(lambda: _answers(port), f"rclone serve {kind}", server)
            yield spec
        finally:
            server.kill()


def alone_at(spec: SourceSpec) -> tuple[str, dict[str, str]]:
    """The same source as an argument of an rclone that is started by hand, and its environment: without our gate."""
    if spec.kind == LOCAL:
        return spec.path, {}
    own = {"TYPE": spec.kind}
    if spec.kind == "sftp":
        own |= {"HOST": spec.address, "PORT": str(spec.port), "USER": USER, "PASS": obscure(PASSWORD)}
    else:
        own |= {"PROVIDER": "Rclone", "ENDPOINT": spec.address}
        own |= {"ACCESS_KEY_ID": USER, "SECRET_ACCESS_KEY": PASSWORD}
    return f"alone:{spec.path}", {f"RCLONE_CONFIG_ALONE_{name}": value for name, value in own.items()}


def _new_key(file: Path) -> str:
    """Write a private host key. Returns the line that pins it."""
    key, ssh = Ed25519PrivateKey.generate(), serialization.Encoding.OpenSSH
    how = (serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    file.write_bytes(key.private_bytes(serialization.Encoding.PEM, *how))
    file.chmod(0o600)
    return key.public_key().public_bytes(ssh, serialization.PublicFormat.OpenSSH).decode()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
