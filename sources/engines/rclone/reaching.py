"""The way of an rclone to a source: the remote that it is, the file of its host keys, and the gate for HTTP."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

from sources.engines.base import SourceSpec
from sources.engines.rclone.remotes import (
    known_hosts_lines,
    remote_environment,
    remote_settings,
    servers_of,
)
from sources.storage.location import Location
from sources.storage.remotes import obscure

NOWHERE = "socks5://127.0.0.1:0"
"""A port that nothing can listen on: what does not speak HTTP gets no connection if it tries to."""


@dataclass(frozen=True)
class Way:
    """`settings` of the remote, with the secret; `inherited`: descriptors that rclone has to keep; `gate`: a URL."""

    settings: Mapping[str, str] = field(repr=False)
    inherited: tuple[int, ...]
    gate: str

    def environment(self, location: Location, **settings: str) -> dict[str, str]:
        """Of an rclone that reaches the source, and a repository. `settings`: more of the source's remote."""
        # what rclone's libraries go by. A repository on a remote has a way of its own, not through the source's gate
        ways_out = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), self.gate) if location.directory else {}
        return remote_environment({**self.settings, **settings}) | ways_out | dict(location.environment)


@contextmanager
def way_to(source: SourceSpec, connect_timeout: float) -> Iterator[Way]:
    """Open a way to a source for as long as the block lasts. Raises: ValueError, ProgramMissing, OSError."""
    with (
        # a file without a name, which rclone inherits: a worker that is killed leaves nothing behind
        tempfile.TemporaryFile() as known_hosts,
        _gate(source, connect_timeout) as gate,
    ):
        if source.kind == "sftp":
            known_hosts.write(known_hosts_lines(source).encode())
            known_hosts.flush()
            known_hosts.seek(0)
        number = known_hosts.fileno()
        settings = remote_settings(source, obscure, f"/dev/fd/{number}") | {"override.http_proxy": gate}
        yield Way(settings, (number,), gate)


def _gate(source: SourceSpec, connect_timeout: float) -> AbstractContextManager[str]:
    if not (servers := servers_of(source)):
        return nullcontext(NOWHERE)
    from sources.engines.rclone.gate import gate_to  # asyncio costs 60 ms

    return gate_to(servers, connect_timeout)
