"""Parts that could be added to the order, each by itself, on fleets whose runs can be computed by hand."""

import pytest

from simulation import schedulers
from tests.simulation.small_fleets import DAY, HOUR, fleet, ran, runs, source


def test_resume_goes_on_where_a_first_backup_was_cut():
    comes_back = fleet(source("leaves", (0, 100, "awake"), (200, DAY, "awake")))
    assert runs(ran(comes_back, "lookahead"))[1] == (1, 220.05, 820.05, True)
    # demoted, so asked again after 900 s; 99.95 of 600 s are done
    assert runs(ran(comes_back, "lookahead+resume")) == [(1, 0.05, 100, False), (1, 1000.05, 1500.1, True)]


def test_resume_puts_what_was_cut_behind_what_is_there():
    breaks = [(at, at + 90, "awake") for at in range(0, 20_000, 100)]
    given = fleet(source("breaks", *breaks, first_seconds=20_000), *(source(name, (0, DAY, "awake")) for name in "abc"))
    assert [run[0] for run in sorted(runs(ran(given, "lookahead+resume")), key=lambda run: run[1])][:4] == [1, 2, 3, 4]


def test_sizes_puts_the_shortest_first_backup_first():
    given = fleet(
        source("long", (0, DAY, "awake"), first_seconds=30_000), source("short", (0, DAY, "awake"), first_seconds=300)
    )
    assert runs(ran(given, "lookahead"))[0][:2] == (1, 0.05)
    assert min(run[1] for run in runs(ran(given, "lookahead+sizes")) if run[0] == 2) == 0.05


def test_hours_sends_fewer_packets_outside_the_hours_of_a_source():
    given = fleet(source("once", (8 * HOUR, 8.5 * HOUR, "awake"), first_seconds=9_000, wake_on_lan=True))
    plain, with_hours = (ran(given, name, 4).packets for name in ("lookahead", "lookahead+hours"))
    assert plain == 24  # each four hours
    assert with_hours < plain / 2


def test_share_keeps_half_of_the_units_for_later_backups():
    firsts = [source(f"first {n}", (0, DAY, "awake"), first_seconds=HOUR) for n in range(4)]
    laters = [source(f"later {n}", (0, DAY, "awake"), backed_up=True) for n in range(20)]
    given = fleet(*firsts, *laters, units=2)

    def begun(name: str) -> list[float]:
        return sorted(run.begins for run in ran(given, name).runs if not run.first)

    assert begun("lookahead")[0] > HOUR
    assert begun("lookahead+share")[-1] < HOUR
    assert len({run.number for run in ran(given, "lookahead+share").runs}) == 24


@pytest.mark.parametrize(
    ("names", "words"),
    [("lookahead+size", "did you mean sizes?"), ("fifo+share", "only lookahead has"), ("lookahead+", "no part ''")],
)
def test_a_part_that_there_is_not_is_named(names: str, words: str):
    with pytest.raises(ValueError, match=r"--scheduler: ") as refused:
        schedulers.named(names)
    assert words in str(refused.value)
