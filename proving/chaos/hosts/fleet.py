"""The workers: one on each host."""

from collections.abc import Mapping, Sequence
from glob import glob
from pathlib import Path

from proving.chaos.fleet import Fleet, Member
from proving.chaos.hosts.lan import LanHost

FAKETIME = "/usr/lib/*/faketime/libfaketimeMT.so.1"


class HostFleet(Fleet):
    """One worker on each of `hosts`, with `environment`. `clocks`: host → seconds by which its clock is wrong."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        hosts: Sequence[LanHost],
        environment: Mapping[str, str],
        clocks: Mapping[str, float],
    ) -> None:
        super().__init__(directory, seed, len(hosts))
        self.environment, self._clocks, self._hosts = environment, clocks, hosts
        self._places: dict[Path, str] = {}

    def host_of(self, member: Member) -> str:
        """The name of its host."""
        return self._places[member.journal]

    def command(self, journal: Path) -> tuple[list[str], dict[str, str]]:
        argv, environment = super().command(journal)
        taken = {self.host_of(member) for member in self.members}
        host = next(host for host in self._hosts if host.name not in taken)
        self._places[journal] = host.name
        environment |= self.environment
        if seconds := self._clocks.get(host.name):
            # monotonic clocks stay right, as on a host whose time of day is wrong
            environment |= {
                "LD_PRELOAD": glob(FAKETIME)[0],
                "FAKETIME": f"{seconds:+.0f}",
                "DONT_FAKE_MONOTONIC": "1",
            }
        return host.command(*argv), environment
