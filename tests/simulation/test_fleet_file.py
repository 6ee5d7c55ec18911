"""The file of a simulated fleet: what it may say, and how what it may not say is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from simulation import fleet_file, fleets
from tests.documents import ROOT
from tests.simulation.small_fleets import facts, source

LAPTOP = source("a", (0, 100, "awake"), (100, 200, "asleep"))


def with_source(**values: Any) -> dict[str, Any]:
    return facts(LAPTOP | values)


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        (with_source(presence=[[0, 5], [3, 9, "asleep"]]), "sources[0].presence[1]", "overlaps the one before, 0 to 5"),
        (with_source(presence=[[9, 5]]), "sources[0].presence[0]", "ends at 5, not after its beginning"),
        (with_source(presence=[[-9, 5]]), "sources[0].presence[0][0]", "greater than or equal to 0"),
        (with_source(presence=[[0, 5, "gone"]]), "sources[0].presence[0][2]", "'awake' or 'asleep'"),
        (with_source(first_seconds=-1), "sources[0].first_seconds", "greater than 0"),
        (with_source(median_seconds=float("inf")), "sources[0].median_seconds", "finite"),
        (with_source(policy="dayly"), "sources[0].policy", "did you mean 'daily'?"),
        (with_source(colour="red"), "sources[0].colour", "is unknown here"),
        (facts(LAPTOP, LAPTOP), "sources[1].name", "there is another 'a'"),
        (facts(LAPTOP, units=0), "units", "greater than or equal to 1"),
        (facts(LAPTOP, units=True), "units", "must be a whole number"),
        (with_source(sigma="1"), "sources[0].sigma", "number"),
        (with_source(presence=[[False, 5]]), "sources[0].presence[0][0]", "number"),
        (with_source(wake_on_lan="no"), "sources[0].wake_on_lan", "true or false"),
        (facts(LAPTOP) | {"start": 20260105}, "start", "it is 20260105: write a date"),
        (facts(LAPTOP) | {"start": "20260105"}, "start", "it is '20260105': write a date"),
        (facts(LAPTOP, period="0 25 * * *"), "policies[0].period", "hour"),
        (facts(LAPTOP, zone="Berlin"), "policies[0].zone", "Europe/Berlin"),
        (facts(LAPTOP, windows=[{"days": "mon", "start": "8"}]), "policies[0].windows", "range 1"),
        (facts(LAPTOP) | {"start": "2026-01-05T00:00:00"}, "start", "timezone"),
        (facts(LAPTOP) | {"start": "0001-01-01T00:00:00+14:00"}, "start", "its year is 1: write one from 1970 to 2199"),
        (facts(LAPTOP) | {"start": "9999-12-31T23:00:00-05:00"}, "start", "its year is 9999"),
        (with_source(presence=[[0]]), "sources[0].presence[0][1]", "is missing"),
        (facts(), "sources", "must have at least 1 item, not 0"),
        (facts(LAPTOP, connect_timeout=1e-9), "policies[0].connect_timeout", "must be greater than or equal to 0.1"),
        (facts(LAPTOP, recheck_after=1e-9), "policies[0].recheck_after", "must be greater than or equal to 1"),
        (facts(LAPTOP, wake_wait=1e-9), "policies[0].wake_wait", "must be greater than or equal to 0.1"),
        ([], "the file", "must be an object"),
    ],
)
def test_a_problem_is_named_by_its_path(given: Any, path: str, words: str) -> None:
    with pytest.raises(fleet_file.FleetFileError) as refused:
        fleet_file.parse(given)
    assert str(refused.value).startswith(f"{path}: ")
    assert words in str(refused.value)


def test_many_problems_are_counted_and_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    for count, words in ((21, "and 1 more problem"), (25, "and 5 more problems")):
        with pytest.raises(fleet_file.FleetFileError, match=f"{words}$"):
            fleet_file.parse(facts(*(source(f"s{number}", policy="none") for number in range(count))))
    file = tmp_path / "fleet.json"
    for text, words in ((b"\xff{", "is not JSON"), (b"9" * 5_000, "a number of more digits than can be read")):
        file.write_bytes(text)
        with pytest.raises(fleet_file.FleetFileError, match=f"{file}: .*{words}"):
            fleet_file.read(file)
    for path in (tmp_path, tmp_path / "x"):
        with pytest.raises(fleet_file.FleetFileError, match="cannot be read"):
            fleet_file.read(path)


def test_the_fixtures_are_what_their_scripts_write() -> None:
    assert (ROOT / "fixtures/simulated_fleet.schema.json").read_text() == fleet_file.schema()
    written = (ROOT / "fixtures/fleet_700_laptops.json").read_text()
    assert written == fleets.as_text(fleets.laptops())
    assert len(written) < 1_500_000
    assert len(fleet_file.parse(json.loads(written)).sources) == 700


@pytest.mark.parametrize("name", fleets.FLEETS)
def test_each_fleet_is_one_that_can_be_read(name: str) -> None:
    assert fleet_file.parse(fleets.FLEETS[name](7, days=3)).sources
