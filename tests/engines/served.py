"""Real servers of a directory, in which a repository may be."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.engines.peers import ACCESS_KEY, PASSWORD, USER, s3_bucket, sftp_host, webdav_share

KEY = "5f" * 32


@contextlib.contextmanager
def serving(kind: str, directory: Path) -> Iterator[tuple[dict[str, Any], dict[str, str], str]]:
    """A real server of `directory`. Yields settings, secrets and a path for a repository."""
    directory.mkdir(exist_ok=True)
    if kind == "s3":
        with s3_bucket(directory) as found:
            own = {"provider": "Rclone", "endpoint": found.address, "access_key_id": ACCESS_KEY}
            yield {"type": "s3", **own}, {"secret_access_key": PASSWORD}, "vault/backups"
    elif kind == "sftp":
        with sftp_host(directory) as found:
            own = {"host": found.address, "port": found.port, "user": USER, "host_keys": found.host_key}
            yield {"type": "sftp", **own}, {"pass": PASSWORD}, "/vault/backups"
    else:
        with webdav_share(directory) as found:
            vendor = kind.partition("-")[2] or "rclone"
            own = {"url": found.address, "user": USER, "vendor": vendor}
            yield {"type": "webdav", **own}, {"pass": PASSWORD}, "vault/backups"
