"""The parts of the bench that decide something."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from bench.__main__ import main, options_of, parse
from bench.contestants.stamps import read_stamps, stamper
from bench.gate import Gate
from bench.processes import ContestantFailed
from bench.race import check_exactly_once
from bench.report import as_json, by_case, number, show, spread
from bench.results import Key, Results, percentile
from bench.tally import Tally

OURS, PEER = Key("drain", "1 worker", "ours"), Key("drain", "1 worker", "peer")


def fill(results: Results, key: Key, *values: float) -> None:
    for value in values:
        results.add(key, value, "jobs/s")


class TestRatios:
    def test_a_ratio_is_taken_within_each_repeat(self):
        results = Results()
        fill(results, OURS, 10, 40, 30)
        fill(results, PEER, 5, 10, 10)
        results.compare("ours / peer", OURS, PEER)
        assert results.ratios[0].values == (2, 4, 3)
        assert results.ratios[0].median == 3

    def test_a_repeat_that_a_peer_did_not_finish_counts_for_neither(self):
        results = Results()
        fill(results, OURS, 10, 40)
        fill(results, PEER, 5)
        results.compare("ours / peer", OURS, PEER)
        assert results.ratios[0].values == (2,)

    def test_what_is_promised_stands_beside_it(self):
        results = Results()
        fill(results, OURS, 10)
        fill(results, PEER, 5)
        results.compare("ours / peer", OURS, PEER, "≥ 1")
        [ratio] = as_json({}, results)["ratios"]
        assert (ratio["target"], ratio["median"], ratio["values"]) == ("≥ 1", 2, (2,))
        console = Console(width=100, record=True, file=io.StringIO())
        show(
            console, {"processors": 1, "load": 0, "commit": "", "python": "", "postgresql": {}, "versions": {}}, results
        )
        assert "≥ 1" in console.export_text()

    def test_what_was_not_measured_is_not_compared(self):
        results = Results()
        fill(results, OURS, 10)
        results.compare("ours / peer", OURS, PEER)
        assert results.ratios == []


class TestPercentile:
    def test_is_a_value_that_was_measured(self):
        assert percentile([4, 1, 3, 2], 0.5) == 3

    def test_of_one_value_is_that_value(self):
        assert percentile([7], 0.99) == 7


class TestTally:
    def test_adds_up_what_several_processes_counted(self, tmp_path: Path):
        total = Tally.create(tmp_path / "tally")
        first, second = Tally(tmp_path / "tally"), Tally(tmp_path / "tally")
        first.take_slot()
        second.take_slot()
        for tally in (first, first, second):
            tally.tick()
        assert total.total() == 3

    def test_is_exact_once_settled_whatever_threads_wrote_last(self, tmp_path: Path):
        tally = Tally.create(tmp_path / "tally")
        tally.take_slot()
        tally.tick()
        tally.tick()
        tally._view[tally._slot] = 1  # as a thread does that was interrupted between its count and its write
        tally.settle()
        assert tally.total() == 2

    def test_a_process_that_never_ticked_changes_nothing(self, tmp_path: Path):
        total = Tally.create(tmp_path / "tally")
        Tally(tmp_path / "tally").settle()
        assert total.total() == 0


class TestGate:
    def test_lets_nobody_be_counted_twice(self, tmp_path: Path):
        gate = Gate(tmp_path)
        gate.open()
        gate.wait_at()
        gate.wait_at()
        assert len(list(tmp_path.glob("ready-*"))) == 1

    def test_says_so_when_a_worker_died_instead_of_arriving(self, tmp_path: Path):
        def check() -> None:
            raise RuntimeError("dead")

        with pytest.raises(RuntimeError, match="dead"):
            Gate(tmp_path).wait_for(1, check)


class TestExactlyOnce:
    @pytest.mark.parametrize(("done", "runs"), [(9, 10), (10, 11), (10, 9), (11, 11)])
    def test_a_job_too_few_or_a_run_too_many_fails_the_contestant(self, done, runs):
        with pytest.raises(ContestantFailed, match=f"ours: {done} of 10 jobs done, by {runs} runs"):
            check_exactly_once("ours", 10, done, runs)

    def test_each_job_by_one_run_is_well(self):
        check_exactly_once("ours", 10, 10, 10)


class TestStamps:
    def test_the_first_start_of_a_job_counts(self, tmp_path: Path):
        (tmp_path / "starts").write_text("0 100\n1 200\n0 300\n")
        assert read_stamps(tmp_path / "starts") == {0: 100, 1: 200}

    def test_what_was_stamped_is_read_again(self, tmp_path: Path):
        stamper(tmp_path / "starts")(7)
        assert list(read_stamps(tmp_path / "starts")) == [7]


class TestTheCommandLine:
    @pytest.mark.parametrize(
        "arguments", [["drian"], ["--only", "nobody"], ["--repeats", "0"], ["--others", "-1"], ["--jobs", "many"]]
    )
    def test_what_it_does_not_know_ends_with_code_2(self, arguments, capsys):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert arguments[-1] in capsys.readouterr().err

    def test_numbers_given_come_before_those_of_quick(self):
        options = options_of(parse(["--quick", "--jobs", "123", "--others", "0", "--absent", "7"]))
        assert (options.jobs, options.others, options.absent, options.repeats) == (123, 0, 7, 1)


class TestTables:
    def test_cases_stay_together_although_contestants_took_turns(self):
        results = Results()
        keys = [Key("drain", case, name) for name in ("ours", "peer") for case in ("1 worker", "2 workers")]
        for key in keys:
            results.add(key, 1, "jobs/s")
        assert [key.case for key, _ in by_case(results.series)] == ["1 worker", "1 worker", "2 workers", "2 workers"]

    def test_small_numbers_keep_their_places_and_large_ones_do_not(self):
        assert (number(12.345), number(12345.6), number(0)) == ("12.35", "12,346", "0")

    def test_a_spread_is_least_and_greatest(self):
        assert spread([3, 1, 2], places=1) == "1.0 – 3.0"
