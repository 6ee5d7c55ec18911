"""Parts that could be added to the order, each by itself, on fleets whose runs can be computed by hand."""

from datetime import UTC, date, datetime, timedelta

import pytest

from jobs.states import Status
from simulation import schedulers
from simulation.lookahead import leaving
from simulation.lookahead.records import MemoryRecord
from simulation.machines import machines_of
from tests.simulation.small_fleets import DAY, HOUR, fleet, ran, runs, source


def test_resume_continues_where_a_first_backup_was_cut():
    comes_back = fleet(source("leaves", (0, 100, "awake"), (200, DAY, "awake")))
    assert runs(ran(comes_back, "lookahead-resume"))[1] == (1, 220.05, 820.05, True)
    # demoted, so asked again after 900 s; 99.95 of 600 s are done
    assert runs(ran(comes_back, "lookahead")) == [(1, 0.05, 100, False), (1, 1000.05, 1500.1, True)]


def test_resume_puts_what_was_cut_behind_what_is_there():
    breaks = [(at, at + 90, "awake") for at in range(0, 20_000, 100)]
    given = fleet(source("breaks", *breaks, first_seconds=20_000), *(source(name, (0, DAY, "awake")) for name in "abc"))
    assert [run[0] for run in sorted(runs(ran(given, "lookahead-sizes")), key=lambda run: run[1])][:4] == [1, 2, 3, 4]


def test_sizes_puts_the_shortest_first_backup_first():
    given = fleet(
        source("long", (0, DAY, "awake"), first_seconds=30_000), source("short", (0, DAY, "awake"), first_seconds=300)
    )
    assert runs(ran(given, "lookahead-sizes"))[0][:2] == (1, 0.05)
    assert min(run[1] for run in runs(ran(given, "lookahead")) if run[0] == 2) == 0.05


def test_hours_sends_fewer_packets_outside_the_hours_of_a_source():
    given = fleet(source("once", (8 * HOUR, 8.5 * HOUR, "awake"), first_seconds=9_000, wake_on_lan=True))
    plain, with_hours = (ran(given, name, 4).packets for name in ("lookahead-hours", "lookahead"))
    assert plain == 24  # each four hours
    assert with_hours < plain / 2


def test_waking_lets_short_ones_that_sleep_come_before_what_takes_a_unit_for_hours():
    sleeping = [source(f"asleep {n}", (0, DAY, "asleep"), wake_on_lan=True) for n in range(4)]
    given = fleet(*sleeping, source("always there", (0, DAY, "awake"), first_seconds=5 * HOUR))
    assert min(runs(ran(given, "lookahead-waking")), key=lambda run: run[1])[:2] == (5, 0.15)
    begun = {run.number: run.begins for run in ran(given, "lookahead").runs}
    assert max(begun, key=lambda number: begun[number]) == 5
    assert begun[5] < HOUR


def test_share_keeps_half_of_the_units_for_later_backups():
    firsts = [source(f"first {n}", (0, DAY, "awake"), first_seconds=HOUR) for n in range(4)]
    laters = [source(f"later {n}", (0, DAY, "awake"), backed_up=True) for n in range(20)]
    given = fleet(*firsts, *laters, units=2)

    def begun(name: str) -> list[float]:
        return sorted(run.begins for run in ran(given, name).runs if not run.first)

    assert begun("lookahead")[0] > HOUR
    assert begun("lookahead+share")[-1] < HOUR
    assert len({run.number for run in ran(given, "lookahead+share").runs}) == 24


def test_leaving_takes_who_leaves_soon_and_falls_back_to_the_shortest_where_nothing_is_known():
    days = [day * DAY for day in range(3)]
    stays = {"first": 18, "soon": 9, "second": 18, "short": 18, "day before": 18}
    machines = machines_of(
        fleet(*(source(name, *((at, at + hour * HOUR, "awake") for at in days)) for name, hour in stays.items())), 3
    )
    now, today = datetime(2026, 1, 7, 8, 10, tzinfo=UTC), date(2026, 1, 7)

    def order(now: datetime) -> list[str]:
        queue = leaving.LeavingFirst(leaving.Departures(machines), lambda: now, datetime(2026, 1, 5, tzinfo=UTC), 4)
        for machine in machines:
            name, number = machine.source.name, machine.number
            queue.put(
                MemoryRecord(
                    number, number, name, "backups", Status.READY, None, now, now, None,
                    today - timedelta(days=name == "day before"), today - timedelta(days=name == "day before"),
                    1_000.0 if name == "short" else 1_200.0, 0, None,
                )
            )  # fmt: skip
        return [record.subject for _ in machines for record in queue.take(1)]

    assert order(now)[:2] == ["day before", "soon"]
    unknown = order(now - timedelta(days=2))
    assert unknown == ["day before", "short", "first", "soon", "second"]


@pytest.mark.parametrize(
    ("names", "words"),
    [("lookahead-size", "did you mean sizes?"), ("fifo+share", "only lookahead has"), ("lookahead+", "no part ''")],
)
def test_a_part_that_there_is_not_is_named(names: str, words: str):
    with pytest.raises(ValueError, match=r"--scheduler: ") as refused:
        schedulers.named(names)
    assert words in str(refused.value)
