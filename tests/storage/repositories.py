"""Repositories for tests: encrypted ones, and on a WebDAV server of this test process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from storage import layout
from storage.places import remotes
from storage.places.location import Location
from tests.engines.peers import PASSWORD, USER, serving

KEY = "correct horse battery staple"


def encrypted(location: Location) -> Location:
    below = f"{location.outside.rstrip('/')}/{layout.ENCRYPTED}"
    crypt = {"TYPE": "crypt", "REMOTE": below, "PASSWORD": remotes.obscure(KEY)}
    added = {f"RCLONE_CONFIG_CRYPT_{name}": value for name, value in crypt.items()}
    return replace(location, root="crypt:", environment={**location.environment, **added})


@contextmanager
def webdav(directory: Path) -> Iterator[Location]:
    with serving("webdav", directory, f"--user={USER}", f"--pass={PASSWORD}") as (address, port):
        settings = {"type": "webdav", "url": f"http://{address}:{port}", "vendor": "rclone", "user": USER}
        yield remotes.location_of("backups", settings, {"pass": PASSWORD}, None)
