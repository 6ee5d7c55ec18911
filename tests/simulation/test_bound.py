"""The upper bound: by hand on small fleets, and never below what a scheduler did."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delivery import extras
from simulation import schedulers
from simulation.bound import bound
from simulation.fleet_file import SimulatedFleet
from tests.commands import command
from tests.simulation.small_fleets import DAY, HOUR, fleet, ran, source, written

simulate, _ = command("simulate")


def bound_of(given: SimulatedFleet, days: int = 1) -> float:
    return bound(ran(given, "fifo", days))


def test_bound_is_as_computed_by_hand():
    an_hour = [source(name, (0, HOUR, "awake"), first_seconds=HOUR) for name in "abc"]
    assert bound_of(fleet(*an_hour)) == pytest.approx(1)
    assert bound_of(fleet(*an_hour, units=2)) == pytest.approx(2)
    too_short = source("short", (0, HOUR - 1, "awake"), first_seconds=HOUR)
    assert bound_of(fleet(too_short)) == 0
    # without a first backup none of the later ones counts, however short
    assert bound_of(fleet(source("a", (0, 60, "awake"), (DAY, DAY + HOUR, "awake"))), 2) == pytest.approx(1)
    failing = source("fails", (0, DAY, "awake"), failing=1)
    assert bound_of(fleet(failing)) == 0
    # a backup may begin just before its window closes, and in each period once
    closes = fleet(source("a", (0, 2 * DAY, "awake")), windows=[{"start": "00:00", "end": "00:01"}])
    assert bound_of(closes, 2) == pytest.approx(2)


@st.composite
def small_fleets(draw: st.DrawFn) -> SimulatedFleet:
    def one(number: int) -> dict[str, object]:
        edges = sorted(draw(st.lists(st.integers(0, 47), min_size=2, max_size=8, unique=True)))
        stays = [
            (begins * HOUR, ends * HOUR, draw(st.sampled_from(["awake", "awake", "asleep"])))
            for begins, ends in zip(edges[::2], edges[1::2], strict=False)
        ]
        seconds = draw(st.integers(300, 9_000))
        return source(
            f"s{number}", *stays, first_seconds=seconds, median_seconds=seconds / 3, sigma=0.4,
            wake_on_lan=draw(st.booleans()), failing=draw(st.sampled_from([0, 0, 0.3])), backed_up=draw(st.booleans()),
        )  # fmt: skip

    sources = [one(number) for number in range(draw(st.integers(1, 6)))]
    period = draw(st.sampled_from(["0 0 * * *", "0 */6 * * *", "30 7 * * *"]))
    windows = draw(st.sampled_from([[], [{"start": "08:00", "end": "16:00"}]]))
    return fleet(*sources, units=draw(st.integers(1, 3)), period=period, windows=windows, zone="Europe/Berlin")


@settings(max_examples=10)
@given(small_fleets())
def test_no_scheduler_protects_more_than_the_bound(given):
    possible = bound_of(given, 2)
    for name in schedulers.SCHEDULERS:
        assert ran(given, name, 2).result().protected <= possible + 1e-6, name


def test_a_missing_extra_is_one_sentence_and_all_else_is_shown(tmp_path, monkeypatch):
    file = written(tmp_path, source("there", (0, DAY, "awake")))
    arguments = (file, "--days", 1, "--scheduler", "lookahead")
    assert "1.000" in simulate(*arguments)
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    found = simulate(*arguments)
    assert "lookahead" in found
    assert "the bound needs scipy, which is not installed here: run `pip install 'backupsched[simulation]'`" in found
