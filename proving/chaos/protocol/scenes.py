"""The theme of a seed. Three of four seeds test one thing; the others draw from everything."""

from dataclasses import dataclass, field
from random import Random

FAULTS = ("linger", "cut", "lose", "kill", "pause", "step", "read-only")
EDITS = ("replan", "follow", "hold", "stop")
KINDS = ("plain", "booked", "relay", "capped", "events")


@dataclass(frozen=True)
class Scene:
    """`eager`: weights of faults, edits, "advance", "tick" and "minute", 0 for never; `endings`: how soon runs end;
    `desk`: how soon an editor continues; `editors`: how many edit at once; `claimed`: records run at the beginning."""

    kinds: tuple[str, ...]
    eager: dict[str, float] = field(default_factory=dict)
    endings: float = 0.5
    desk: float = 2.5
    editors: int = 1
    idle: float = 1.5
    claimed: bool = True


STAGED = (
    Scene(("relay",), {"stop": 0.5, "advance": 0.1}, endings=4),
    Scene(("booked",), {"replan": 2, "follow": 2, "hold": 1}, endings=3, desk=0.5, editors=3, idle=0.2),
    Scene(("capped",), {"linger": 4, "advance": 0.3}, endings=2, claimed=False),
    Scene(("plain",), {"step": 6, "advance": 0.2, "minute": 1}, endings=0.1),
    Scene(("plain",), {"hold": 1, "replan": 1, "advance": 0.3, "minute": 3}, endings=0.1, desk=1),
)
DISTURBED = (
    Scene(("plain", "booked"), {"lose": 2, "cut": 1, "read-only": 0.5, "advance": 0.1}, endings=2, claimed=False),
    Scene(("booked",), {"pause": 2, "kill": 1, "minute": 2, "advance": 0.3}, endings=0.7),
)


def draw(seed: int, rng: Random) -> Scene:
    """The scene of a seed. Most faults and edits are left out, since a seed with few of them goes deeper."""
    if seed % 2:
        return STAGED[seed // 2 % len(STAGED)]
    if seed % 4 == 0:
        return DISTURBED[seed // 4 % len(DISTURBED)]
    eager = {name: rng.choice((0, 0, 0.5, 1)) for name in (*FAULTS, *EDITS, "tick", "minute")}
    eager["advance"] = rng.choice((0.1, 0.1, 0.3, 1))
    kinds = tuple(name for name in KINDS if rng.random() < 0.4) or ("plain",)
    return Scene(kinds, eager, editors=rng.choice((1, 1, 2)), claimed=rng.random() < 0.6)
