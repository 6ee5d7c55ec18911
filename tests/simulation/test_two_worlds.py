"""The backlog in memory and the product's statements decide alike: the same claims at the same instants, and the same
standing of each assignment, on random fleets."""

import os
from random import Random
from typing import Any

import pytest

from jobs.prepared_statements import prepare_in_this_thread
from simulation import fleet_file, fleets
from simulation.fleet_file import SimulatedFleet
from simulation.lookahead.memory import MemoryWorld
from simulation.lookahead.sql import SqlWorld
from simulation.lookahead.worker import VirtualWorker
from simulation.lookahead.world import BacklogWorld, rows_of
from simulation.machines import machines_of
from simulation.results import Ledger
from tests.simulation.small_fleets import DAY, HOUR
from tests.threads import beside

pytestmark = pytest.mark.django_db(transaction=True)

SEEDS = int(os.environ.get("BACKUPSCHED_SIMULATED_FLEETS", "2"))
"""Larger fleets that are compared."""

STANDING = (
    "next_backup_at", "last_backup_at", "last_backup_for", "last_contacted_at", "failures", "first_failure_at",
    "losses", "vanished_at", "seen_hours",
)  # fmt: skip


def played(fleet: SimulatedFleet, world: BacklogWorld, ledger: Ledger) -> tuple[list[Any], list[Any], Any]:
    worker = VirtualWorker(ledger, world)
    worker.run()
    numbers = range(1, len(fleet.sources) + 1)
    found = [world.assignment(number) for number in numbers]
    standings = [[getattr(each, name) for name in STANDING] + [each.source.last_woken_at] for each in found]
    return worker.trace, standings, ledger.result()


def played_in_sql(fleet: SimulatedFleet, ledger: Ledger) -> tuple[list[Any], list[Any], Any]:
    prepare_in_this_thread()
    return played(fleet, SqlWorld(rows_of(fleet, ledger.machines), fleet.units, fleet.start), ledger)


def compare(fleet: SimulatedFleet, days: int) -> int:
    """Returns how many claims were the same."""
    ledgers = [Ledger(fleet, machines_of(fleet, days), days) for _ in range(2)]
    remembered = played(fleet, MemoryWorld(rows_of(fleet, ledgers[0].machines), fleet.units), ledgers[0])
    written = beside(lambda: played_in_sql(fleet, ledgers[1])).result()
    for one, other in zip(*(each[0] for each in (remembered, written)), strict=False):
        assert one == other
    assert remembered == written
    return len(remembered[0])


def random_fleet(seed: int, most: int, days: int, recheck_after: float = 900) -> SimulatedFleet:
    """Sources of all sorts under two policies: some never there, some that leave in mid-backup again and again."""
    rng = Random(seed)
    policies = [
        {"name": "a", "period": rng.choice(["0 0 * * *", "0 */4 * * *", "15 9 * * *"]), "zone": "Europe/Berlin",
         "recheck_after": recheck_after},
        {"name": "b", "period": "30 6 * * 1-5", "zone": rng.choice(["America/New_York", "UTC", "Asia/Kolkata"]),
         "windows": rng.choice([[], [{"start": "08:00", "end": "17:30"}], [{"start": "22:00", "end": "06:00"}]]),
         "recheck_after": recheck_after / rng.choice([1, 3]), "vanish_grace": rng.choice([120, 0.5])},
    ]  # fmt: skip
    sources = []
    for number in range(rng.randint(2, most)):
        presence, at = [], 0.0
        while rng.random() < 0.9:
            at += rng.choice([0, 0, rng.uniform(0, 5 * HOUR)])
            ends = at + rng.choice([rng.uniform(60, HOUR), rng.uniform(HOUR, 12 * HOUR)])
            if ends > days * DAY:
                break
            presence.append([at, ends, rng.choice(["awake", "awake", "asleep"])])
            at = ends
        sources.append({
            "name": f"s{number}", "policy": rng.choice("ab"), "wake_on_lan": rng.random() < 0.6,
            "first_seconds": rng.uniform(60, 3 * HOUR), "median_seconds": rng.uniform(10, HOUR), "sigma": 0.5,
            "backed_up": rng.random() < 0.4, "failing": rng.choice([0, 0, 0.3, 1]), "presence": presence,
        })  # fmt: skip
    about = {"units": rng.randint(1, 4), "seed": seed, "start": "2026-03-27T05:30:00Z"}  # clocks change
    return fleet_file.parse({**about, "policies": policies, "sources": sources})


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 3])
def test_both_worlds_make_the_same_claims(seed):
    assert compare(random_fleet(seed, most=6, days=1, recheck_after=14_400), 1) > 40


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 100 + SEEDS))
def test_both_worlds_make_the_same_claims_on_larger_fleets(seed):
    compare(random_fleet(seed, most=50, days=2, recheck_after=3_600), 2)


@pytest.mark.slow
@pytest.mark.skipif("BACKUPSCHED_SIMULATED_DAY" not in os.environ, reason="BACKUPSCHED_SIMULATED_DAY=1 asks for it")
@pytest.mark.timeout(3_600)
def test_both_worlds_make_the_same_claims_on_a_day_of_700_laptops(caplog):
    caplog.set_level("WARNING", "jobs.doing")  # pytest would keep each of 54,000 lines
    fleet = fleet_file.parse(fleets.laptops(days=1))
    assert compare(fleet, 1) > 10_000
