"""Repositories for tests: encrypted ones, and on a WebDAV server of this test process."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sources.processes.programs import find_rclone
from sources.storage import layout
from sources.storage.location import Location
from tests.sources.engines.peers import PASSWORD, USER, serving

KEY = "correct horse battery staple"


def obscured(text: str) -> str:
    command = (find_rclone(), "obscure", "-")
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.strip()


def encrypted(location: Location) -> Location:
    below = f"{location.outside.rstrip('/')}/{layout.ENCRYPTED}"
    crypt = {"TYPE": "crypt", "REMOTE": below, "PASSWORD": obscured(KEY)}
    added = {f"RCLONE_CONFIG_CRYPT_{name}": value for name, value in crypt.items()}
    return replace(location, root="crypt:", environment={**location.environment, **added})


@contextmanager
def webdav(directory: Path) -> Iterator[Location]:
    with serving("webdav", directory, f"--user={USER}", f"--pass={PASSWORD}") as (address, port):
        base = {"TYPE": "webdav", "URL": f"http://{address}:{port}", "VENDOR": "rclone", "USER": USER}
        environment = {f"RCLONE_CONFIG_BASE_{name}": value for name, value in base.items()}
        environment["RCLONE_CONFIG_BASE_PASS"] = obscured(PASSWORD)
        yield Location("base:backups", "base:backups", environment)
