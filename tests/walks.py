"""The way of a call through the product's modules, by `sys.setprofile`: which it enters, from where, by which doors.

A door is a function or class of a module that another module calls. However often a loop goes through it, and whichever
of an object's methods are called, it is one door: a way is hard to follow when it comes back by ever other ones.
"""

import sys
import threading
from collections import defaultdict
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "alerting", "audit", "backups", "declarations", "delivery", "engines", "external", "fleet", "jobs", "operations",
    "schedules", "sealing", "sources", "storage",
)  # fmt: skip
PRODUCT = tuple(f"{ROOT / each}/" for each in PACKAGES)
ASIDE = ("audit.actors", "declarations.surfaces.patience", "declarations.surfaces.printable", "jobs.log_fields")
"""They watch every statement, or write every line of a log, and are on no way."""
GROUND = (
    "external.durations", "external.formatting", "jobs.clock", "jobs.conf", "jobs.decisions",
    "jobs.prepared_statements", "jobs.priorities", "jobs.zones", "sources.planning.names",
)  # fmt: skip
"""They give words, values and settings, or run a statement; rows (`models`) do so too. They decide nothing."""
MOST_DOORS = 3


class Walk:
    """`with Walk() as walk: …` follows this thread, and those that it starts."""

    def __init__(self) -> None:
        self.doors: dict[tuple[str, str], set[str]] = defaultdict(set)

    @property
    def modules(self) -> list[str]:
        """The modules in the order in which they are entered."""
        return list(dict.fromkeys(entered for _, entered in self.doors))

    @property
    def deciding(self) -> list[str]:
        """The modules among them that decide something."""
        return [each for each in self.modules if each not in GROUND and ".models" not in each]

    @property
    def crooked(self) -> dict[tuple[str, str], set[str]]:
        """Pairs of modules of which the first enters the second by too many doors."""
        return {pair: doors for pair, doors in self.doors.items() if len(doors) > MOST_DOORS}

    def __str__(self) -> str:
        doors = ((origin or "·", entered, ", ".join(sorted(names))) for (origin, entered), names in self.doors.items())
        lines = [f"  {origin:40} → {entered:40} {names}" for origin, entered, names in doors]
        return "\n".join([f"{len(self.modules)} modules, {len(self.deciding)} of which decide", *lines, ""])

    def __enter__(self) -> Self:
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_qualname.partition(".")[0]
        if event != "call" or name in ("<genexpr>", "<module>") or not (entered := _module_of(frame)):
            return
        caller = frame.f_back
        while caller and not _module_of(caller):
            caller = caller.f_back
        origin = _module_of(caller) if caller else ""
        if origin != entered:
            self.doors[origin, entered].add(name)


def _module_of(frame: FrameType) -> str:
    name = str(frame.f_globals.get("__name__", ""))
    return name if frame.f_code.co_filename.startswith(PRODUCT) and name not in ASIDE else ""
