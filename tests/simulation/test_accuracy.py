"""The accuracy of the forecast, measured on fleets of which it is known what can be foretold."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.foreseeing.intervals import ForecastGroup
from simulation import fleet_file
from simulation.accuracy import Guess, Score, Starts, accuracy_of
from tests.commands import command
from tests.simulation.small_fleets import DAY, HOUR, facts, source

simulate, refused = command("simulate")
DAYS = 10


def office(*, days: int = DAYS) -> list[dict[str, Any]]:
    """Two that come at ten each day, one that is always there, and one that never comes in the second week."""
    daily = [[(day * DAY + 10 * HOUR, day * DAY + 18 * HOUR, "awake") for day in range(days)] for _ in range(2)]
    gone = [(day * DAY + 8 * HOUR, day * DAY + 18 * HOUR, "awake") for day in range(6)]
    return [
        *(source(f"daily {number}", *stays) for number, stays in enumerate(daily)),
        source("server", (0, days * DAY, "awake")),
        source("gone", *gone),
    ]


def test_who_comes_each_day_at_ten_is_foretold_at_nine():
    found = accuracy_of(fleet_file.parse(facts(*office(), units=2)), DAYS)
    at_nine = found.hours[9].as_facts
    assert (at_nine["asked"], at_nine["missed"]) == (9, 3)  # the server has been backed up at midnight
    assert found.groups[ForecastGroup.AWAY].number == 6
    assert found.groups[ForecastGroup.AWAY].within[2] == 1.0


def test_shares_are_counted_by_hand():
    score = Score()
    for probability, came_true in ((0.9, True), (0.2, False), (0.3, True), (0.8, False), (0.1, False)):
        score.add(probability, came_true, 1 - probability)
    assert score.as_facts == {
        "asked": 5, "missed": 3, "right": 0.6, "brier": 0.238, "precision": 0.667, "recall": 0.667,
        "unnamed": 1, "foreseen": 0.3,
    }  # fmt: skip
    guesses = [Guess(1, 0.0, 1.0, ForecastGroup.ALWAYS, 3, (100.0, 200.0, 300.0)) for _ in range(4)]
    found = Starts.of(list(zip(guesses, (200.0, 270.0, 361.0, 4_000.0), strict=True)))
    assert found == Starts(4, (0.25, 0.75, 0.75), 0.75, 23.6)


class TestTheCommand:
    def written(self, directory: Path) -> Path:
        file = directory / "fleet.json"
        file.write_text(json.dumps(facts(*office(), units=2)))
        return file

    def test_prints_both_tables_and_json(self, tmp_path: Path):
        file = self.written(tmp_path)
        found = json.loads(simulate(file, "--days", DAYS, "--accuracy", "--json"))
        assert found["hours"].keys() == {"09:00", "11:00", "14:00"}
        assert found["starts"]["away"]["number"] == 6
        printed = simulate(file, "--days", DAYS, "--accuracy")
        assert "in the interval" in printed
        assert "precision" in printed

    @pytest.mark.parametrize(
        ("more", "words"), [(("--days", 7), "from day 8 on"), (("--units", 3), "leave out --units")]
    )
    def test_refuses_what_it_cannot_measure(self, tmp_path: Path, more: tuple[Any, ...], words: str):
        assert words in refused(self.written(tmp_path), "--accuracy", *more)
