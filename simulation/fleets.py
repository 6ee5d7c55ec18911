"""The fleets that we measure by, each from a seed: laptops that come, sleep and go, and the other machines of an
office.

`python -m simulation.fleets laptops > fixtures/fleet_700_laptops.json` writes one; without a name it lists them.
"""

import json
import sys
from collections.abc import Callable
from random import Random
from typing import Any

HOUR, DAY = 3_600, 86_400
START = "2026-01-05T00:00:00Z"
"""A Monday."""
DAILY = {"name": "daily", "period": "0 0 * * *", "zone": "UTC", "windows": []}

SPELLS = {"awake": (0.4, 1.8), "asleep": (0.4, 2.0)}
"""Hours that a laptop is awake, or asleep, at a stretch."""

Facts = dict[str, Any]


def _day(rng: Random, arrives: float, leaves: float, begins: int) -> list[list[Any]]:
    """The presence of one day: awake and asleep by turns."""
    since, until = rng.gauss(arrives, 0.4) * HOUR, rng.gauss(leaves, 0.6) * HOUR
    since, until = max(0.0, since), min(float(DAY), until)
    found: list[list[Any]] = []
    at, state = since, "awake"
    while until - at >= HOUR / 4:
        ends = min(at + rng.uniform(*SPELLS[state]) * HOUR, until)
        found.append([begins + round(at), begins + round(ends), state])
        at, state = ends, "asleep" if state == "awake" else "awake"
    return found


def laptop(rng: Random, number: int, days: int, size: float = 1.0, shift: float = 0.0, steady: bool = False) -> Facts:
    """One of an office. `size`: how much longer its backups take. `shift`: hours by which the second week is later."""
    arrives, leaves = rng.gauss(8.6, 0.8), rng.gauss(17.2, 1.0)
    presence: list[list[Any]] = []
    for day in range(days):
        if day % 7 < 5 and rng.random() < 0.84:
            later = shift if day >= 7 else 0.0
            presence += _day(rng, arrives + later, leaves + later, day * DAY)
    median = min(5_400.0, 300.0 * rng.lognormvariate(0.0, 0.85)) * size
    facts = {
        "name": f"laptop-{number:03}", "kind": "sftp", "policy": "daily", "wake_on_lan": True,
        "first_seconds": round(median * 8), "median_seconds": round(median), "sigma": 0.35, "presence": presence,
    }  # fmt: skip
    return facts | ({"backed_up": True} if steady else {})


def laptops(
    seed: int = 101, *, count: int = 700, units: int = 16, days: int = 14, size: float = 1.0, shift: float = 0.0,
    steady: bool = False,
) -> Facts:  # fmt: skip
    rng = Random(seed)  # noqa: S311 - no secrets
    sources = [laptop(rng, number, days, size, shift, steady) for number in range(1, count + 1)]
    return {"units": units, "seed": seed, "start": START, "policies": [DAILY], "sources": sources}


def office(seed: int = 101, *, days: int = 14) -> Facts:
    """An office in Berlin: laptops, half of them without Wake-on-LAN; desktops that sleep at night; servers."""
    rng = Random(seed)  # noqa: S311
    nightly = {
        "name": "nightly", "period": "0 18 * * *", "zone": "Europe/Berlin",
        "windows": [{"days": "mon-sun", "start": "20:00", "end": "06:00"}],
    }  # fmt: skip
    weekdays = {
        "name": "daily", "period": "0 7 * * 1-5", "zone": "Europe/Berlin",
        "windows": [{"days": "mon-fri", "start": "07:00", "end": "19:00"}],
    }  # fmt: skip
    sources = []
    for number in range(1, 121):
        facts = laptop(rng, number, days)
        sources.append(facts | {"wake_on_lan": rng.random() < 0.5})
    for number in range(1, 61):
        presence = []
        for day in range(days):
            at = day * DAY
            busy = [[at, at + 8 * HOUR, "asleep"], [at + 8 * HOUR, at + 18 * HOUR, "awake"],
                    [at + 18 * HOUR, at + DAY, "asleep"]]  # fmt: skip
            presence += busy if day % 7 < 5 else [[at, at + DAY, "asleep"]]
        facts = laptop(rng, number, 0)
        sources.append(facts | {"name": f"desktop-{number:03}", "policy": "nightly", "presence": presence})
    for number in range(1, 21):
        facts = laptop(rng, number, 0, size=6.0)
        always = [[0, days * DAY, "awake"]]
        sources.append(
            facts
            | {"name": f"server-{number:03}", "policy": "nightly", "presence": always, "wake_on_lan": False,
               "failing": 0.02}
        )  # fmt: skip
    return {"units": 4, "seed": seed, "start": START, "policies": [weekdays, nightly], "sources": sources}


def servers(seed: int = 101, *, days: int = 14, count: int = 60, units: int = 4) -> Facts:
    """Always there, backed up each hour."""
    rng = Random(seed)  # noqa: S311
    hourly = {"name": "hourly", "period": "0 * * * *", "zone": "UTC", "windows": []}
    sources = []
    for number in range(1, count + 1):
        median = 150.0 * rng.lognormvariate(0.0, 0.6)
        sources.append({
            "name": f"server-{number:03}", "kind": "sftp", "policy": "hourly", "first_seconds": round(median * 20),
            "median_seconds": round(median), "sigma": 0.2, "presence": [[0, days * DAY, "awake"]],
        })  # fmt: skip
    return {"units": units, "seed": seed, "start": START, "policies": [hourly], "sources": sources}


FLEETS: dict[str, Callable[..., Facts]] = {
    "laptops": laptops,
    "eight": lambda seed=101, **how: laptops(seed, units=8, **how),
    "hundred": lambda seed=101, **how: laptops(seed, count=100, units=4, **how),
    "half": lambda seed=101, **how: laptops(seed, size=0.5, **how),
    "double": lambda seed=101, **how: laptops(seed, size=2.0, **how),
    "shifted": lambda seed=101, **how: laptops(seed, shift=3.0, **how),
    "steady8": lambda seed=101, **how: laptops(seed, units=8, steady=True, **how),
    "steady16": lambda seed=101, **how: laptops(seed, steady=True, **how),
    "office": office,
    "servers": servers,
}


def as_text(facts: Facts) -> str:
    """A fleet as a file, a line a source."""
    head = {name: value for name, value in facts.items() if name != "sources"}
    rows = ",\n".join(json.dumps(source, separators=(",", ":")) for source in facts["sources"])
    return json.dumps(head, separators=(", ", ": "))[:-1] + f', "sources": [\n{rows}\n]}}\n'


if __name__ == "__main__":
    name, *seeds = sys.argv[1:] or ["", "101"]
    if name not in FLEETS or not all(seed.isdigit() for seed in seeds):
        sys.exit(f"usage: python -m simulation.fleets NAME [SEED], where NAME is one of {', '.join(FLEETS)}")
    sys.stdout.write(as_text(FLEETS[name](int((seeds or ["101"])[0]))))
