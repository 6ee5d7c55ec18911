"""Real hosts on loopback: each an `rclone serve` process with its own address, host key and files. The files are
generated, different on each host, and awkward on purpose.
"""

import os
import random
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from zlib import crc32

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from django.conf import settings

from demo import processes, sleeper
from external.processes import programs
from operations.ports import free_port

USER = "backup"
VANISHER_BYTES = 9_000_000
"""The size at which a copy takes long enough to be interrupted, given the brake of the demo's policy."""

SFTP_PORT = 2022
LARGE, LARGE_FILES, LARGE_FILE_BYTES = "demo-film-archive", 12, 8_000_000

AWKWARD_NAMES = (
    "notes with spaces.txt",
    "Übersicht 2026 — März.csv",
    "-rf",
    "100% done; $(date).log",
    "empty file",
    "quote ' and \" quote.md",
)
FOLDERS = ("Documents", "Documents/Invoices/2026", "Pictures", "Projects/alpha/src", ".config")


@dataclass
class Host:
    """One demo source and the process that plays it.

    `reachable`: it answers and accepts our login in the end. `up_after`: seconds until it comes up, None if it must be
    woken. `has_agent`: it checks in. `vanishes`: it leaves in the middle of its first backup, and comes back later.
    """

    name: str
    kind: str
    home: Path
    address: str
    port: int | None
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(12), repr=False)
    options: dict[str, str] = field(default_factory=dict)
    path: str = ""
    listens_at: str = ""
    reachable: bool = True
    up_after: float | None = 0.0
    mac_address: str = ""
    wake_port: int = 9
    host_key: str = ""
    wrong_secret: bool = False
    has_agent: bool = False
    vanishes: bool = False
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    enrolment: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    agent: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    command: Callable[["Host"], list[str]] | None = field(default=None, repr=False)

    @property
    def files(self) -> Path:
        """The originals."""
        return self.home / "files"

    @property
    def log(self) -> Path:
        return self.home / "host.log"

    @property
    def environment(self) -> dict[str, str]:
        """Passwords go to the host by environment, never by argument."""
        if self.kind == "s3":
            return {"RCLONE_AUTH_KEY": f'"{USER},{self.secret}"'}  # a list of CSV: the comma is quoted
        return {"RCLONE_USER": USER, "RCLONE_PASS": self.secret}

    @property
    def secret_file(self) -> Path:
        """The value that the source's `secret` refers to."""
        return secrets_directory() / self.name

    def start(self) -> None:
        """Bring the host up."""
        if self.command is not None and self.process is None:
            self.process = processes.start(self.command(self), log=self.log, environment=self.environment)


def serve(protocol: str, host: Host, *more: str) -> list[str]:
    """The argv of `rclone serve` for a host."""
    return [
        programs.find_rclone(), "serve", protocol, str(host.files), "--addr", host.listens_at,
        "--config", os.devnull, "--cache-dir", str(host.home / "cache"), "--dir-cache-time", "1s", "--read-only", *more,
    ]  # fmt: skip


def _serve_sftp(host: Host) -> list[str]:
    return serve("sftp", host, "--authorized-keys", os.devnull, "--key", str(host.home / "host_key"))


def _sleep_until_woken(host: Host) -> list[str]:
    return [
        sys.executable, "-I", sleeper.__file__, host.address, str(host.wake_port), host.mac_address, "--",
        *_serve_sftp(host),
    ]  # fmt: skip


def make_sftp_hosts(home: Path, count: int) -> list[Host]:
    """`count` SFTP hosts, written to disk but not up.

    One vanishes in mid-backup, two come late (these three have agents), one sleeps, one refuses the password.
    """
    hosts = []
    for number in range(1, count + 1):
        address, port = address_of(number)
        host = Host(f"demo-laptop-{number:02}", "sftp", home / f"laptop-{number:02}", address, port)
        host.path, host.listens_at, host.options = "/", f"{address}:{port}", {"user": USER}
        host.command = _serve_sftp
        hosts.append(host)
    for late, host in enumerate(hosts[-4:-2]):
        host.name, host.up_after, host.has_agent = f"demo-late-{late + 1}", 6.0 + 4 * late, True
    vanisher = hosts[-5]
    vanisher.name, vanisher.vanishes, vanisher.has_agent = "demo-vanisher", True, True
    sleeper, refuser = hosts[-2:]
    sleeper.name, sleeper.up_after, sleeper.command = "demo-sleeper", 0.0, _sleep_until_woken
    sleeper.mac_address, sleeper.wake_port = "02:00:5e:00:00:01", address_of(count + 1)[1]
    refuser.name, refuser.reachable, refuser.wrong_secret = "demo-refuses-password", False, True
    for number, host in enumerate(hosts):
        _write(host, total_bytes=VANISHER_BYTES if host.vanishes else 1_500_000 + 700_000 * (number % 5))
        host.host_key = _make_host_key(host.home / "host_key")
    return hosts


def make_other_hosts(home: Path, number: int) -> list[Host]:
    """One S3 bucket, one WebDAV share and one local folder, written to disk but not up."""
    address, port = address_of(number)
    bucket = Host("demo-bucket", "s3", home / "bucket", f"http://{address}:{port}", None)
    bucket.path, bucket.options = "archive", {"access_key_id": USER, "region": "us-east-1", "provider": "Rclone"}
    bucket.listens_at, bucket.command = f"{address}:{port}", partial(serve, "s3")
    other_address, other_port = address_of(number + 1)
    share = Host("demo-share", "webdav", home / "share", f"http://{other_address}:{other_port}", None)
    share.options = {"user": USER, "vendor": "rclone"}
    share.listens_at, share.command = f"{other_address}:{other_port}", partial(serve, "webdav")
    folder = Host("demo-folder", "local", home / "folder", "", None)
    folder.path, folder.options = str(folder.files), {"marker": "notes with spaces.txt"}
    for host in (bucket, share, folder):
        _write(host, total_bytes=3_000_000, below=bucket.path if host is bucket else "")
    return [bucket, share, folder]


def make_large_host(home: Path, number: int) -> Host:
    """An SFTP host with large files, written to disk but not up."""
    address, port = address_of(number)
    host = Host(LARGE, "sftp", home / "film-archive", address, port)
    host.path, host.listens_at, host.options, host.command = "/", f"{address}:{port}", {"user": USER}, _serve_sftp
    host.files.mkdir(parents=True)
    for film in range(LARGE_FILES):
        (host.files / f"film {film + 1:02}.mkv").write_bytes(os.urandom(LARGE_FILE_BYTES))
    write_secret(host.secret_file, host.secret)
    host.host_key = _make_host_key(host.home / "host_key")
    return host


def _write(host: Host, *, total_bytes: int, below: str = "") -> None:
    generate(host.files / below, seed=host.name, total_bytes=total_bytes)
    write_secret(host.secret_file, "not the password" if host.wrong_secret else host.secret)


def secrets_directory() -> Path:
    """The file of the demo's secrets, below a directory from which workers take secrets."""
    return Path(settings.VAR_DIR) / "secrets"


def write_secret(path: Path, secret: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(secret)


def _make_host_key(path: Path) -> str:
    """Make an SSH host key. Returns its public half, as `ssh-ed25519 AAAA…`."""
    key = Ed25519PrivateKey.generate()
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


@cache
def has_loopback_network() -> bool:
    """True if any 127.x address can be bound here (Linux: yes; macOS: no)."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.77.0.1", 0))
        except OSError:
            return False
    return True


def address_of(number: int) -> tuple[str, int]:
    """Address and port for host `number` (from 1): free at this moment. Demos of two directories, which may be started
    at the same moment, have different addresses.
    """
    if has_loopback_network():
        block = crc32(str(settings.VAR_DIR).encode()) % 256
        address = f"127.{77 + number // 250}.{block}.{number % 250 + 1}"
        return address, free_port(address, SFTP_PORT)
    return "127.0.0.1", free_port("127.0.0.1", 0)


def generate(root: Path, *, seed: str, total_bytes: int) -> None:
    """Write some dozens of files of `total_bytes` together below `root`. Equal seeds give equal files."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    files = [root / name for name in AWKWARD_NAMES]
    files += [root / folder / f"{rng.choice('abcdefgh')}{number:03}.dat" for number, folder in enumerate(FOLDERS * 5)]
    weights = [0.0 if file.name == "empty file" else rng.random() ** 3 for file in files]
    for file, weight in zip(files, weights, strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(rng.randbytes(int(total_bytes * weight / sum(weights))))
