"""The two clocks of a simulation, which stand still unless they are moved. All actors share them."""

import sys
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from proving.chaos.protocol.monitor import Monitor

BEGINNING = datetime(2026, 1, 5, 8, tzinfo=UTC)
BOOT_BEGINNING = 1000.0
PLAYED = ("jobs", "schedules", "operations", "sources", "backups", "fleet")
"""The layers that a seed plays. A reading of a real clock, such as that for the half second after which an emission
leaves the rest to the next tick, would let a seed depend on the load of the machine."""


class Clocks:
    """`boot` is the boot clock, in seconds; `database()` is the database's, ahead of it by the sum of its steps."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self.reset()

    def reset(self) -> None:
        self.boot, self.stepped = BOOT_BEGINNING, 0.0
        self._monitor.set_clock(self.database())

    def database(self) -> datetime:
        return self.database_at(self.boot)

    def database_at(self, boot: float) -> datetime:
        """The database's clock when the boot clock is at `boot`, without further steps."""
        return BEGINNING + timedelta(seconds=boot - BOOT_BEGINNING + self.stepped)

    def advance(self, seconds: float) -> None:
        """Let time pass on both."""
        self.boot += seconds
        self._monitor.set_clock(self.database())

    def step(self, seconds: float) -> None:
        """Set the database's clock forward or back, as NTP does on a resumed machine."""
        self.stepped = round(self.stepped + seconds, 1)
        self._monitor.set_clock(self.database())

    def install(self) -> None:
        """Replace the machine's clock by this one in every module of the played layers that reads it."""

        def boot(*_: object) -> float:
            return self.boot

        stand_in: Any = SimpleNamespace(**{name: getattr(time, name) for name in dir(time) if not name.startswith("_")})
        stand_in.monotonic = stand_in.perf_counter = stand_in.clock_gettime = boot
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in PLAYED:
                if getattr(module, "time", None) is time:
                    module.time = stand_in  # type: ignore[attr-defined]
                if getattr(module, "monotonic", None) is time.monotonic:
                    module.monotonic = boot  # type: ignore[attr-defined]
