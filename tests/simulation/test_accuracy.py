"""The accuracy of the forecast, measured on fleets of which it is known what can be foretold."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.foreseeing.intervals import ForecastGroup
from operations.backlog.ends import SPREAD
from simulation import fleet_file, fleets
from simulation.accuracy import Guess, Observer, Score, Starts, accuracy_of
from simulation.lookahead.memory import MemoryWorld
from simulation.lookahead.worker import VirtualWorker
from simulation.lookahead.world import rows_of
from simulation.machines import machines_of
from simulation.reported_progress import reported
from simulation.results import Ledger
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


class TestProgressOfSimulatedRuns:
    given = fleet_file.parse(fleets.laptops(6, count=20, units=1))

    def test_tells_when_each_ends_also_if_it_continues_a_backup_that_was_cut(self):
        days, found = 4, list[tuple[float, float]]()
        ledger = Ledger(self.given, machines_of(self.given, days), days)
        worker = VirtualWorker(ledger, MemoryWorld(rows_of(self.given, ledger.machines), self.given.units))

        def look(share: float) -> None:
            so_far = (worker.now - self.given.start).total_seconds()
            for each in worker.progress(0.0).values():
                found.append((round(so_far - each.seconds, 3), so_far + each.rest(each.seconds)))

        worker.run(look)
        ends = {round(run.begins, 3): run.ends for run in ledger.runs if run.succeeded}
        apart = [abs(end - ends[began]) for began, end in found if began in ends]
        assert len(apart) > 20
        assert sorted(apart)[len(apart) * 9 // 10] < 1.0

    def test_changes_what_is_foretold_and_nothing_that_happens(self):
        def seen(spread: float | None) -> Observer:
            observer = Observer(self.given, 9, 7, spread=spread)
            observer.run()
            return observer

        with_it, without = seen(SPREAD), seen(None)
        assert with_it.guesses != without.guesses
        assert with_it.ledger.runs == without.ledger.runs

    @pytest.mark.parametrize("spread", [0.0, SPREAD])
    def test_has_an_error_that_is_drawn_once_for_each(self, spread: float):
        [machine] = machines_of(fleet_file.parse(facts(source("server", (0, DAY, "awake")))), 1)
        run = machine.run(100.0, first=True)

        def at(now: float, done: float = 0.0) -> float:
            found = reported(run, machine, now, done=done, spread=spread, seed=1)
            return found.rest(now - 100.0) if found else -1.0

        assert at(104.0) == -1.0
        wrong_by = at(400.0) / (run.ends - 400.0)
        assert (wrong_by == pytest.approx(1.0)) is (spread == 0.0)
        assert at(550.0) / (run.ends - 550.0) == pytest.approx(wrong_by)
        assert at(200.0, done=0.5) / ((run.ends - 100.0) / 2 - 100.0) == pytest.approx(wrong_by)


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
