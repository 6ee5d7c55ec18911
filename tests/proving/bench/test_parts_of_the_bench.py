"""The parts of the bench that decide something, and that its fleets are what its parts take them for."""

from types import SimpleNamespace

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from backupsched import urls  # noqa: F401 - loads the pages of the admin
from jobs.states import AttemptOutcome, Status
from proving.bench.__main__ import main
from proving.bench.fleets.surfaces import asked
from proving.bench.parts import pages
from proving.bench.processes import ContestantFailed
from proving.bench.race import check_exactly_once
from proving.bench.results import Key, Results
from proving.bench.server import BenchServer
from proving.bench.stage import BenchOptions, Stage
from proving.bench.tally import Tally
from tests.factories import make_record, make_schedule
from tests.sources.factories import make_assignment, make_policy, make_source

OURS, PEER = Key("drain", "1 worker", "ours"), Key("drain", "1 worker", "peer")
SILENT, HANDED_ON, DONE = AttemptOutcome.UNAVAILABLE, AttemptOutcome.HANDOFF, AttemptOutcome.SUCCEEDED
DUE = 100


@pytest.mark.parametrize(("ours", "peer", "ratios"), [((10, 40, 30), (5, 10, 10), (2, 4, 3)), ((10, 40), (5,), (2,))])
def test_a_ratio_is_taken_within_each_repeat_that_both_have_finished(ours, peer, ratios):
    results = Results()
    for key, values in ((OURS, ours), (PEER, peer)):
        for value in values:
            results.add(key, value, "jobs/s")
    results.compare("ours / peer", OURS, PEER)
    assert results.ratios[0].values == ratios


def test_a_tally_is_exact_once_settled_whatever_threads_wrote_last(tmp_path):
    tally = Tally.create(tmp_path / "tally")
    tally.take_slot()
    tally.tick()
    tally.tick()
    tally._view[tally._slot] = 1  # as a thread does that was interrupted between its count and its write
    tally.settle()
    assert tally.total() == 2


@pytest.mark.parametrize(("done", "runs"), [(9, 10), (10, 11), (10, 9), (11, 11)])
def test_a_job_too_few_or_a_run_too_many_fails_the_contestant(done, runs):
    check_exactly_once("ours", 10, 10, 10)
    with pytest.raises(ContestantFailed, match=f"ours: {done} of 10 jobs done, by {runs} runs"):
        check_exactly_once("ours", 10, done, runs)


@pytest.mark.parametrize(
    "arguments", [["drian"], ["--only", "nothing"], ["--repeats", "0"], ["--others", "-1"], ["--jobs", "many"]]
)
def test_what_the_command_does_not_know_ends_with_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


class TestPages:
    def test_fleets_are_ten_times_each_other_and_none_is_a_toy(self):
        assert pages.sizes_up_to(100_000) == [1_000, 10_000, 100_000]
        assert pages.sizes_up_to(10_000) == [1_000, 10_000]
        assert pages.sizes_up_to(300) == [300]

    @pytest.mark.parametrize(("few", "many", "grows"), [(100, 1_500, False), (100, 10_000, True), (0, 12, False)])
    def test_what_grows_faster_than_n_log_n_is_told_from_what_does_not(self, few, many, grows):
        assert pages.grows_too_fast(few, many, 1_000, 10_000) is grows

    def test_what_was_measured_of_one_fleet_alone_is_left_unmarked(self):
        results, lines = Results(), []
        stage = Stage(None, BenchOptions(), results, lines.append)
        for title, size, taken in (("home", 1_000, [0.2, 0.1, 0.1]), ("home", 10_000, [30.0]), ("new", 10_000, [1.0])):
            looked = {"statements": 1, "rows": size, "bytes": 1, "wrong": "", "taken": taken, "processor": 0.02}
            pages.note(stage, title, size, looked)
        pages.mark(stage, [1_000, 10_000])
        assert "home 100 ms, at most 200 ms" in lines[0]
        assert "20 ms of the database's processor" in lines[0]
        assert ["GROWS" in series.note for series in results.series.values()] == [False, True, False]

    @pytest.mark.django_db
    def test_a_page_has_one_name_whatever_the_fleet(self):
        names = []
        for number in range(2):
            make_assignment(make_policy(), make_source(name=f"source {number}"))
            make_schedule()
            make_record(Status.FAILED, failures=1, last_failure_at=timezone.now())
            names.append([name for name, _ in asked()])
        assert names[0] == names[1]
        assert len(set(names[0])) == len(names[0])

    @pytest.mark.django_db
    def test_a_kept_fleet_is_found_again(self):
        known = connection.get_connection_params()
        to = {name: known[name] for name in ("host", "port", "user", "password", "dbname") if known.get(name)}
        server = BenchServer(SimpleNamespace(connect=lambda database: psycopg.connect(**to)))
        assert server.exists(to["dbname"])
        assert not server.exists("aged-7")
