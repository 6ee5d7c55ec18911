"""Three schedulers on fleets whose runs are computed by hand; their figures; and that chance is the same for all."""

import json
from typing import Any

import pytest

from simulation import fleets, gains, schedulers
from simulation.fleet_file import parse
from tests.commands import command
from tests.simulation.small_fleets import DAY, HOUR, fleet, ran, runs, source, written

simulate, refused = command("simulate")


class TestComputedByHand:
    def test_lookahead_backs_up_what_answers_and_asks_what_is_silent_each_quarter_of_an_hour(self):
        given = fleet(source("there", (0, DAY, "awake")), source("comes", (HOUR, DAY, "awake")))
        ledger = ran(given, "lookahead")
        # asked at 0 and every 60 + 900 s; there at 3840
        assert runs(ledger) == [(1, 0.05, 600.05, True), (2, 3840.05, 4440.05, True)]
        result = ledger.result()
        assert (result.possible, result.protected, result.missed_present, result.absent_unit_seconds) == (2, 2, 0, 0)

    def test_lookahead_wakes_what_sleeps(self):
        ledger = ran(fleet(source("sleeps", (0, DAY, "asleep"), wake_on_lan=True)), "lookahead")
        assert runs(ledger) == [(1, 240.05, 840.05, True)]  # 60 s of silence, a packet, 180 s
        assert ledger.packets == 1

    def test_lookahead_lets_go_what_leaves_and_takes_it_first_when_it_is_back(self):
        given = fleet(
            source("leaves", (0, 100, "awake"), (200, DAY, "awake"), backed_up=True, median_seconds=600),
            source("other", (150, DAY, "awake"), first_seconds=50),
        )
        ledger = ran(given, "lookahead")
        assert runs(ledger)[0] == (1, 0.05, 100, False)
        assert (1, 220.05, 820.05, True) in runs(ledger)  # after the grace of 120 s
        assert (ledger.result().aborted, ledger.result().aborted_unit_seconds) == (1, 100.0)

    def test_lookahead_keeps_to_the_window_and_to_the_next_period(self):
        evening = [{"days": "mon-sun", "start": "20:00", "end": "22:00"}]
        given = fleet(source("there", (0, 2 * DAY, "awake")), windows=evening)
        assert runs(ran(given, "lookahead", 2)) == [
            (1, 20 * HOUR + 0.05, 20 * HOUR + 600.05, True),
            (1, DAY + 20 * HOUR + 0.05, DAY + 20 * HOUR + 60.05, True),
        ]

    def test_lookahead_retries_what_fails_by_the_policy_of_retries(self):
        ledger = ran(fleet(source("breaks", (0, 500, "awake"), failing=1)), "lookahead")
        # half of 600 s, then Fibonacci's first minute
        assert [(run.begins, run.ends, run.failed) for run in ledger.runs] == [
            (0.05, 300.05, True),
            (360.1, 500, False),
        ]

    def test_fifo_polls_one_after_the_other_and_is_due_a_day_after_the_end(self):
        given = fleet(source("absent"), source("there", (0, 2 * DAY, "awake")))
        assert runs(ran(given, "fifo", 2)) == [
            (2, 60.05, 660.05, True),
            (2, 87_120.1, 87_180.1, True),
        ]  # behind the absent one

    def test_proactive_holds_a_unit_for_what_is_silent(self):
        given = fleet(source("absent", wake_on_lan=True), source("there", (0, DAY, "awake")))
        ledger = ran(given, "proactive")
        assert runs(ledger) == [(2, 300, 900, True)]
        assert ledger.absent_unit_seconds == DAY - 600
        assert ledger.packets == (DAY - 600) // 300

    @pytest.mark.parametrize("name", schedulers.SCHEDULERS)
    def test_no_run_overlaps_another_of_its_source_and_no_unit_is_used_twice(self, name):
        given = parse(fleets.office(3, days=2))
        ledger = ran(given, name, 2)
        edges = sorted([(run.begins, 1) for run in ledger.runs] + [(run.ends, -1) for run in ledger.runs])
        busy = 0
        for _, change in edges:
            busy += change
            assert busy <= given.units
        ended: dict[int, float] = {}
        for run in sorted(ledger.runs, key=lambda run: run.begins):
            assert run.begins >= ended.get(run.number, 0.0)
            ended[run.number] = run.ends


class TestChance:
    def test_the_same_seed_gives_the_same_and_another_one_another(self):
        given = parse(fleets.laptops(5, count=20, units=2, days=3))
        one, same, other = (schedulers.simulate(given, "lookahead", 3, seed).result() for seed in (1, 1, 2))
        assert one == same
        assert one != other

    def test_all_schedulers_see_the_same_durations(self):
        given = parse(fleets.laptops(5, count=20, units=2, days=3))
        taken: dict[tuple[int, int, bool], set[float]] = {}
        for name in schedulers.SCHEDULERS:
            for run in ran(given, name, 3).runs:
                if run.succeeded:
                    key = (run.number, int(run.begins // DAY), run.first)
                    taken.setdefault(key, set()).add(round(run.ends - run.begins, 3))
        assert len(taken) > 20
        assert {len(each) for each in taken.values()} == {1}


class TestTheCommand:
    def test_prints_figures_of_each_scheduler(self, tmp_path):
        file = written(tmp_path, source("there", (0, DAY, "awake")))
        found = json.loads(simulate(file, "--days", 1, "--scheduler", "fifo,lookahead", "--json"))
        assert found["schedulers"].keys() == {"fifo", "lookahead"}
        lookahead = found["schedulers"]["lookahead"]
        assert (lookahead["share"], lookahead["protected"], lookahead["of_bound"]) == (1.0, 1, 1.0)
        assert lookahead["backups_per_hour"] == [1] + [0] * 23
        assert "proactive" in simulate(file, "--days", 1)

    def test_says_what_each_part_that_is_off_would_bring(self, tmp_path):
        firsts = [source(f"first {n}", (0, DAY, "awake"), first_seconds=9 * HOUR) for n in range(4)]
        laters = [source(f"later {n}", (0, 2 * HOUR, "awake"), backed_up=True) for n in range(5)]
        file, plain = written(tmp_path, *firsts, *laters, units=2), ("--days", 1, "--scheduler", "lookahead")
        found = json.loads(simulate(file, *plain, "--parts", "--json"))
        assert [(each["parts"], each["protected"], each["never_protected"]) for each in found["gains"]] == [
            (["share"], 5, 0), (["leaving"], 0, 0), (["share", "leaving"], 5, 0),
        ]  # fmt: skip
        assert [each.split(":")[0] for each in found["off"]] == ["share", "leaving"]
        assert "share would bring +125.0% protected periods (+5), +0 sources never" in simulate(file, *plain, "--parts")
        assert "a part of the order that is off: share: at most half of the units" in simulate(file, *plain)
        assert "leave out --units" in refused(file, "--parts", "--units", 3)

    def test_tries_a_part_together_with_the_one_that_it_needs(self, settings):
        settings.ORDER_WITHOUT = frozenset({"resume", "hours"})
        assert gains.to_try() == [
            "lookahead", "lookahead+resume", "lookahead+hours", "lookahead+share+resume", "lookahead+leaving",
            "lookahead+resume+hours+share+leaving",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--scheduler", "fifo,lokahead"), "did you mean lookahead?"),
            (("--scheduler", ","), "name one or more of fifo, proactive, lookahead"),
            (("--days", 0), "1 to 366"),
        ],
    )
    def test_refuses_what_it_cannot_do(self, tmp_path: Any, arguments: tuple[Any, ...], words: str):
        file = written(tmp_path, source("there", policy="daly"))
        assert words in refused(file, *arguments)
        assert "sources[0].policy" in refused(file, "--days", 1)

    @pytest.mark.parametrize(
        ("stays", "arguments", "words"),
        [
            (30, ("--days", 2), "in 2 days no source is there for as long as its backup takes, in its window"),
            (30, ("--units", 2), "in 14 days no source is there for as long as its backup takes: there is nothing to"),
            (8 * DAY, ("--days", 8, "--accuracy"), "there is nothing to measure"),
        ],
    )
    def test_says_that_there_is_nothing_to_simulate(
        self, tmp_path: Any, stays: float, arguments: tuple[Any, ...], words: str
    ):
        assert words in refused(written(tmp_path, source("a", (0, stays, "awake"))), *arguments)
