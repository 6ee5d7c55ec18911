"""The way of an rclone to a source: the remote that it is, the file of its host keys, and the gate for HTTP."""

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from sources.engines.base import SourceSpec
from sources.engines.rclone.gate import gate_to
from sources.engines.rclone.remotes import (
    SourceIncomplete,
    known_hosts_lines,
    remote_environment,
    remote_settings,
    servers_of,
)
from sources.processes import runner
from sources.processes.programs import find_rclone
from sources.storage.location import Location

OBSCURE_SECONDS = 30.0


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
    """Open a way to a source for as long as the block lasts. Raises: SourceIncomplete, ProgramMissing, OSError."""
    with (
        # a file without a name, which rclone inherits: a worker that is killed leaves nothing behind
        tempfile.TemporaryFile() as known_hosts,
        gate_to(servers_of(source), connect_timeout) as gate,
    ):
        if source.kind == "sftp":
            known_hosts.write(known_hosts_lines(source).encode())
            known_hosts.flush()
            known_hosts.seek(0)
        number = known_hosts.fileno()
        settings = remote_settings(source, obscured, f"/dev/fd/{number}") | {"override.http_proxy": gate}
        yield Way(settings, (number,), gate)


def obscured(password: str) -> str:
    """A password in rclone's form, which its environment wants. It goes in through a pipe, never argv."""
    if "\n" in password or "\0" in password:
        raise SourceIncomplete("the secret holds a line break, which no password may")
    try:
        ended = subprocess.run(
            (find_rclone(), "obscure", "-", "--config="),
            input=password.encode(),
            env=runner.program_environment({}),
            capture_output=True,
            timeout=OBSCURE_SECONDS,
            check=True,
        )
    except subprocess.SubprocessError:
        raise SourceIncomplete("rclone does not take the secret as a password") from None
    return ended.stdout.decode().strip()
