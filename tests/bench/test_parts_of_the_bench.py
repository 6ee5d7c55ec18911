"""The parts of the bench that decide something, and that its fleets are what its parts take them for."""

import socket

import pytest

from bench.__main__ import main
from bench.fleets import arrivals, decisions, making, sweep
from bench.fleets.deaf_host import NotDeaf, address, check_silent, deaf_host
from bench.fleets.spans import Span
from bench.fleets.swept import NoSweep, Tried, swept
from bench.processes import ContestantFailed
from bench.race import check_exactly_once
from bench.results import Key, Results
from bench.tally import Tally
from jobs import tick
from jobs.models import BacklogRecord, Throttle
from jobs.states import AttemptOutcome, Status, WaitingFor
from sources import planning
from sources.agents import tokens
from sources.models import Assignment

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


def silent(start, end):
    return Tried(True, "availability", start, end, SILENT)


def copied(start, end, *, absent=False, outcome=DONE):
    return Tried(absent, "backups", start, end, outcome)


class TestASweep:
    def test_lasts_from_the_first_claim_to_the_last_absent_source(self):
        attempts = [Tried(False, "availability", 10, 10.1, HANDED_ON), silent(11, 13), silent(12, 14), copied(14, 20)]
        assert swept(attempts, absent=2, units=16, timeout=2).whole == Span(10, 14)

    @pytest.mark.parametrize(
        ("copies", "wasted", "busy"),
        [
            ([copied(0, 5), copied(5, 12, outcome=None)], 0, 0.5),  # what is asked keeps no unit busy
            ([copied(3, 5, absent=True), copied(0, 10)], 2, 0.5),
            ([copied(11, 12, absent=True)], 1, 0.0),
        ],
    )
    def test_units_are_busy_with_what_they_copy_and_wasted_on_absent_sources(self, copies, wasted, busy):
        found = swept([silent(0, 10), *copies], absent=1, units=2, timeout=2)
        assert (found.wasted, found.busy) == (wasted, pytest.approx(busy))

    @pytest.mark.parametrize(
        "attempts",
        [
            [silent(0, 2)],
            [silent(0, 2), silent(0, 2), silent(3, 5)],
            [silent(0, 2), Tried(True, "availability", 0, 2, HANDED_ON)],
            [silent(0, 2), silent(0, 2), Tried(True, "availability", 3, 5, HANDED_ON)],
            [silent(0, 2), silent(0, 1.9)],
        ],
        ids=["not asked", "asked twice", "answered", "answered the second time", "not given its time"],
    )
    def test_that_was_none_is_not_measured(self, attempts):
        with pytest.raises(NoSweep):
            swept(attempts, absent=2, units=16, timeout=2)


def test_the_deaf_host_is_silent_and_a_port_that_accepts_is_not():
    with deaf_host(last=699) as port:
        check_silent(address(350), port)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(NotDeaf, match=f"127.0.0.1:{port} answers"):
            check_silent("127.0.0.1", port)


def ready():
    return list(BacklogRecord.objects.filter(status=Status.READY, queue="availability").order_by("pk"))


@pytest.mark.django_db
class TestFleets:
    @pytest.mark.parametrize(("policies", "throttled", "lanes"), [(3, False, 0), (2, True, 4)])
    def test_one_tick_emits_all_of_a_fleet_at_its_periods_start(self, policies, throttled, lanes):
        """First backups have lanes of their own."""
        making.make_fleet(DUE, policies=policies, throttled=throttled)
        assert tick.tick().emitted == DUE
        assert len({(record.rank_day, record.expected_seconds) for record in ready()}) > DUE / 2
        assert {record.priority for record in ready()} == set(range(policies))
        assert len({record.lane for record in ready()} - {0}) == lanes

    @pytest.mark.parametrize("lanes", [False, True])
    def test_a_decision_has_as_many_due_as_were_asked_for_half_of_them_behind_a_full_throttle(self, lanes):
        decisions.make_due(DUE, lanes=lanes)
        assert len(ready()) == DUE
        assert 0 < sum(record.tried_at is not None for record in ready()) < DUE / 3
        if lanes:
            full = Throttle.objects.get(max_in_flight=decisions.FULL_AT)
            records = BacklogRecord.objects.filter(origin__schedule__throttle=full)
            assert records.running().count() == decisions.FULL_AT
            waiting = [record for record in ready() if record in records]
            assert abs(len(waiting) - DUE / 2) < DUE / 10
            others = [record for record in ready() if record not in waiting]
            assert min(r.priority for r in waiting) > max(r.priority for r in others)
            assert len({record.lane for record in ready()}) == 4

    def test_a_sweep_has_its_sources_ready_in_that_order(self, tmp_path):
        sweep.make(absent=4, present=2, behind=1, port=2022, directory=str(tmp_path), connect_timeout=2, bandwidth="1M")
        kinds = [Assignment.objects.get(pk=record.payload["assignment"]).source.kind for record in ready()]
        assert kinds == ["local", "sftp", "sftp", "local", "sftp", "sftp", "local"]

    def test_silent_sources_wait_for_their_re_check_and_a_check_in_ends_that(self, tmp_path):
        found = arrivals.make(2, str(tmp_path))
        waiting = BacklogRecord.objects.filter(status=Status.WAITING, waiting_for=WaitingFor.RECHECK)
        assert waiting.count() == 2
        assignment_id, token = found[0]
        agent = tokens.authenticate(token)
        assert agent is not None
        assert planning.check_in(agent.source) == 1
        arrived = BacklogRecord.objects.filter(status=Status.READY, queue=planning.ARRIVALS)
        assert [record.payload["assignment"] for record in arrived] == [assignment_id]
