"""The gain of each part of the order that is off: the same days of a fleet, simulated with it."""

from dataclasses import dataclass
from typing import Any

from simulation.lookahead.parts import MEANS, LookaheadParts
from simulation.results import Result

PLAIN = "lookahead"
NEEDS = {"share": "resume"}
"""A part that is only tried with another one: without that one it leaves sources without any backup."""


def to_try() -> list[str]:
    """The scheduler as it is, with each part that is off, and with all of them."""
    off = _off()
    alone = [f"{name}+{NEEDS[name]}" if NEEDS.get(name) in off else name for name in off]
    together = ["+".join(off)] if len(off) > 1 else []
    return [PLAIN, *(f"{PLAIN}+{each}" for each in alone + together)]


def _off() -> list[str]:
    parts = LookaheadParts.of_product()
    return [name for name in MEANS if not getattr(parts, name)]


@dataclass(frozen=True)
class Gain:
    """The difference that parts make: `protected` periods, and their share of those that are protected without;
    sources without any backup at the end; magic packets.
    """

    parts: tuple[str, ...]
    protected: int
    share: float
    never_protected: int
    wake_packets: int

    @property
    def as_facts(self) -> dict[str, Any]:
        """The fields by name."""
        return {
            "parts": list(self.parts), "protected": self.protected, "share": self.share,
            "never_protected": self.never_protected, "wake_packets": self.wake_packets,
        }  # fmt: skip

    def __str__(self) -> str:
        words = [
            f"{self.share:+.1%} protected periods ({self.protected:+,})",
            f"{self.never_protected:+,} sources never",
        ]
        return f"{' and '.join(self.parts)} would bring {', '.join(words)}, {self.wake_packets:+,} packets"


def gains(results: dict[str, Result]) -> list[Gain]:
    """The gain of each of `to_try` that was simulated, if the scheduler as it is was simulated, too."""
    plain, *tried = to_try()
    return [_gain(name, results[plain], results[name]) for name in tried if results.keys() >= {plain, name}]


def _gain(name: str, plain: Result, tried: Result) -> Gain:
    more = tried.protected - plain.protected
    return Gain(
        tuple(name.split("+")[1:]),
        more,
        round(more / plain.protected, 4) if plain.protected else 0.0,
        tried.never_protected - plain.never_protected,
        tried.wake_packets - plain.wake_packets,
    )


def off_as_text() -> list[str]:
    """The parts that are off, a line each."""
    return [f"{name}: {MEANS[name]}" for name in _off()]
