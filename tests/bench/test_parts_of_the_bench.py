"""The parts of the bench that decide something."""

import pytest

from bench.__main__ import main
from bench.processes import ContestantFailed
from bench.race import check_exactly_once
from bench.results import Key, Results
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


class TestTally:
    def test_is_exact_once_settled_whatever_threads_wrote_last(self, tmp_path):
        tally = Tally.create(tmp_path / "tally")
        tally.take_slot()
        tally.tick()
        tally.tick()
        tally._view[tally._slot] = 1  # as a thread does that was interrupted between its count and its write
        tally.settle()
        assert tally.total() == 2


class TestExactlyOnce:
    @pytest.mark.parametrize(("done", "runs"), [(9, 10), (10, 11), (10, 9), (11, 11)])
    def test_a_job_too_few_or_a_run_too_many_fails_the_contestant(self, done, runs):
        with pytest.raises(ContestantFailed, match=f"ours: {done} of 10 jobs done, by {runs} runs"):
            check_exactly_once("ours", 10, done, runs)

    def test_each_job_by_one_run_is_well(self):
        check_exactly_once("ours", 10, 10, 10)


class TestTheCommandLine:
    @pytest.mark.parametrize(
        "arguments", [["drian"], ["--only", "nobody"], ["--repeats", "0"], ["--others", "-1"], ["--jobs", "many"]]
    )
    def test_what_it_does_not_know_ends_with_code_2(self, arguments, capsys):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert arguments[-1] in capsys.readouterr().err
