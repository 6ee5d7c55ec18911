"""Fleets of one source or a few, whose runs can be computed by hand."""

import json
from pathlib import Path
from typing import Any

from simulation import fleet_file, schedulers
from simulation.fleet_file import SimulatedFleet
from simulation.results import Ledger

HOUR, DAY = 3_600.0, 86_400.0


def source(name: str, *presence: tuple[float, float, str], **values: Any) -> dict[str, Any]:
    usual = {
        "policy": "daily",
        "first_seconds": 600,
        "median_seconds": 60,
        "presence": [list(each) for each in presence],
    }
    return {"name": name, **usual, **values}


def facts(*sources: dict[str, Any], units: int = 1, **policy: Any) -> dict[str, Any]:
    policies = [{"name": "daily", **policy}]
    return {"units": units, "start": "2026-01-05T00:00:00Z", "policies": policies, "sources": list(sources)}


def fleet(*sources: dict[str, Any], units: int = 1, **policy: Any) -> SimulatedFleet:
    return fleet_file.parse(facts(*sources, units=units, **policy))


def ran(given: SimulatedFleet, scheduler: str, days: int = 1) -> Ledger:
    return schedulers.simulate(given, scheduler, days)


def runs(ledger: Ledger) -> list[tuple[int, float, float, bool]]:
    """(number, begins, ends, succeeded) of each, in order of their beginnings."""
    return sorted((run.number, run.begins, run.ends, run.succeeded) for run in ledger.runs)


def written(directory: Path, *sources: dict[str, Any], units: int = 1) -> Path:
    file = directory / "fleet.json"
    file.write_text(json.dumps(facts(*sources, units=units)))
    return file
