"""The way of an rclone to a source: the remote that it is, and the gate for HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager

from sources.engines.base import SourceSpec
from sources.engines.rclone.remotes import remote_environment, remote_settings, servers_of
from sources.storage.location import Location
from sources.storage.remotes import obscure
from sources.storage.servers import CONNECT_SECONDS, gate, of_libraries, reached, through


@contextmanager
def way_to(
    source: SourceSpec, location: Location, connect_timeout: float = CONNECT_SECONDS, **settings: str
) -> Iterator[dict[str, str]]:
    """The environment of an rclone that reaches a source, and a repository, for as long as the block lasts. Each has a
    gate of its own: a source leads to its repository's server as little as to any other. `settings`: more of the
    source's remote. Raises: ValueError, ProgramMissing, OSError."""
    with gate(servers_of(source), connect_timeout) as url, reached(location, None, connect_timeout) as environment:
        remote = remote_settings(source, obscure)
        remote |= settings | through(url, remote["type"])
        yield remote_environment(remote) | of_libraries(url) | environment
