"""Runs of handlers in threads and on the event loop: each gives exactly one outcome, whatever it does."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import uuid4

import pytest

from jobs import conf
from jobs.clock import boot_seconds
from jobs.handlers import Kind, Run, registry
from jobs.outcomes import Failed, Outcome, Postponed, Released, Succeeded
from jobs.worker import units as units_module
from jobs.worker.heartbeat import Guard
from jobs.worker.units import AHEAD_SECONDS
from tests.factories import make_claimed
from tests.jobs.listening import PLACES, Gate, Listening
from tests.waiting import PATIENCE, eventually


@pytest.fixture
def units() -> Iterator[Listening]:
    units = Listening()
    yield units
    units.stop_all()
    units.close()


@pytest.fixture
def handled(monkeypatch) -> Callable:
    """Registers the handler of kind `test` in queue `default`."""
    monkeypatch.setattr(registry, "_handlers", dict(registry._handlers))
    monkeypatch.setattr(registry, "kinds", dict(registry.kinds))
    return registry.handler("test", queue="default")


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


def succeed(run: Run) -> Outcome:
    return Succeeded()


async def succeed_async(run: Run) -> Outcome:
    return Succeeded()


def raising(error: BaseException) -> tuple[Callable, Callable]:
    def raises(run: Run):
        raise error

    async def raises_async(run: Run):
        raise error

    return raises, raises_async


async def return_nothing(run: Run):
    return None


MISBEHAVIOUR = [
    (lambda run: "done", "returned 'done', which is not an outcome"),
    (return_nothing, "returned None, which is not an outcome"),
    *((handler, "SystemExit: 3") for handler in raising(SystemExit(3))),
    *((handler, "KeyboardInterrupt") for handler in raising(KeyboardInterrupt())),
    (raising(asyncio.CancelledError())[1], ""),  # and no endless release
]


class TestMisbehaviour:
    @pytest.mark.parametrize(("handler", "message"), MISBEHAVIOUR)
    def test_is_a_failure_that_says_what_happened_and_the_next_ones_run(self, units, handled, handler, message):
        handled(handler)
        units.run(*[make_claimed() for _ in range(2 * PLACES)])
        for outcome in units.outcomes(2 * PLACES):
            assert isinstance(outcome, Failed)
            assert message in outcome.error
        handled(succeed)
        units.run(make_claimed())
        assert units.outcome() == Succeeded()

    @pytest.mark.parametrize(("attempt", "minutes"), [(1, 1), (2, 2), (100, 60)])
    def test_of_an_unknown_kind_names_it_is_no_failure_and_waits_longer_each_time(self, units, attempt, minutes):
        units.run(record := make_claimed(kind="tape", attempt=attempt))
        outcome = units.outcome()
        assert isinstance(outcome, Postponed)
        assert "no handler for kind 'tape' in queue 'default'" in outcome.reason
        assert outcome.until == record.started_at + timedelta(minutes=minutes)


class TestStopping:
    def test_releases_a_question_that_waits_for_its_answer_but_no_handler_that_does_something(self, handled, gate):
        asking, doing = Listening(feeds="other"), Listening()
        handled(gate.asynchronous)
        one, neighbour = make_claimed(), make_claimed()
        asking.run(make_claimed())
        doing.run(one, neighbour)
        eventually(lambda: gate.began == 3)
        for units in (asking, doing):
            units.stop_waiting_for_answers()
        assert isinstance(asking.outcome(), Released)
        doing.stop(doing.find(one.id))
        assert doing.ended.get(timeout=PATIENCE) == (one, Released())
        gate.open()
        assert doing.ended.get(timeout=PATIENCE) == (neighbour, Succeeded())
        handled(succeed_async)
        asking.run(*[make_claimed() for _ in range(3)])  # its place serves the next
        assert asking.outcomes(3) == [Succeeded()] * 3
        asking.close()
        doing.close()

    @pytest.mark.parametrize("handler", [succeed, succeed_async])
    def test_releases_a_handler_that_had_no_time_to_begin(self, units, handled, gate, handler):
        handled(gate.sync if handler is succeed else gate.asynchronous)
        units.run(make_claimed(), make_claimed())
        eventually(lambda: gate.began == PLACES)
        late = make_claimed()
        units.run(late)
        units.stop(units.find(late.id))
        gate.open()
        outcomes = {record.id: outcome for record, outcome in [units.ended.get(timeout=PATIENCE) for _ in range(3)]}
        assert isinstance(outcomes[late.id], Released)
        assert gate.began == PLACES

    @pytest.mark.parametrize("number", [2, 1], ids=["the next number", "the same one, after a failover"])
    def test_reaches_an_earlier_attempt_when_the_record_is_claimed_once_more(self, units, handled, number):
        handled(lambda run: Released() if run.stop.wait(PATIENCE) else Failed("was not stopped"))
        first = make_claimed()
        second = first._replace(attempt=number, lease_token=uuid4())
        units.run(first)
        units.run(second)
        assert units.ended.get(timeout=PATIENCE) == (first, Released())
        assert [run.record for run in units.runs()] == [second]
        units.forget([first])  # its settle ends the holding of its own attempt alone
        assert [run.record for run in units.runs()] == [second]
        units.stop_all()
        assert units.ended.get(timeout=PATIENCE) == (second, Released())


@pytest.mark.parametrize("handler", ["sync", "asynchronous"])
def test_a_lease_that_ran_out_while_it_waited_begins_nothing(units, handled, gate, handler):
    handled(getattr(gate, handler))
    units.start([make_claimed()], boot_seconds() - conf.deadline_seconds() - 0.1)
    assert isinstance(units.outcome(), Released)
    assert gate.began == 0


@pytest.mark.parametrize("own", [None, 5])
@pytest.mark.parametrize("handler", ["sync", "asynchronous"])
def test_the_longest_time_of_its_kind_or_its_own_ends_what_hangs(units, handled, gate, handler, own, caplog):
    registry.add(Kind("test", max_seconds=30))
    handled(getattr(gate, handler))
    units.run(make_claimed())
    eventually(lambda: gate.began == 1)
    [run] = units.runs()
    run.renewed_at = boot_seconds() + 60
    run.max_seconds = own or run.max_seconds  # as the handler sets it
    guard, longest = Guard(units), own or 30
    guard.look(run.began_at + longest - 0.1)
    assert not run.is_stopped
    guard.look(run.began_at + longest + 0.1)
    outcome = units.outcome()
    assert isinstance(outcome, Failed)
    assert f"longer than the {longest} s" in outcome.error
    assert f"has run for {longest} s: stopping it" in caplog.text


class TestPlaces:
    @pytest.mark.parametrize("handler", ["sync", "asynchronous"])
    def test_are_as_many_as_the_rule_says_and_the_rest_waits_in_order(self, units, handled, gate, handler):
        handled(getattr(gate, handler))
        records = [make_claimed() for _ in range(10)]
        for record in records[:PLACES]:
            units.run(record)  # each finds a place of its own
        units.run(*records[PLACES:])
        eventually(lambda: gate.began == PLACES)
        assert (units.waiting(), units.unsettled()) == (8, 0)
        assert sorted(run.record for run in units.busy()) == records[:PLACES]
        assert (units.room("default"), units.begun_lately("default", PATIENCE)) == (0, 10)
        assert not units.room_was_made.is_set()
        gate.open()
        assert units.outcomes(10) == [Succeeded()] * 10
        assert gate.peak == PLACES
        assert units.room_was_made.wait(PATIENCE)

    def test_one_slow_handler_holds_up_none_of_the_quick_ones_behind_it_sync_or_async(self, units, handled, gate):
        registry.handler("slow", queue="default")(gate.sync)
        registry.handler("other", queue="default")(succeed_async)
        handled(succeed)
        units.run(make_claimed(kind="slow"), *[make_claimed(kind=kind) for kind in ("test", "other") * 20])
        assert units.outcomes(40) == [Succeeded()] * 40
        assert not units.room_was_made.is_set()  # nobody has asked for room yet
        assert units.room("default") == PLACES - 1

    def test_are_threads_that_bear_the_name_of_their_queue_and_outlive_no_worker(self, units, handled, gate):
        handled(gate.sync)
        units.run(make_claimed(), make_claimed())
        eventually(lambda: gate.began == PLACES)
        threads = {each.name: each.daemon for each in threading.enumerate() if each.name.startswith("default-")}
        assert threads.items() >= {"default-1": True, "default-2": True}.items()

    @pytest.mark.parametrize("handler", ["sync", "asynchronous"])
    def test_that_are_all_taken_by_something_long_give_back_what_waits(
        self, units, handled, gate, handler, monkeypatch
    ):
        handled(getattr(gate, handler))
        records = [make_claimed() for _ in range(10)]
        units.run(*records)
        eventually(lambda: gate.began == PLACES)
        monkeypatch.setattr(units_module, "STARVED_SECONDS", PATIENCE)
        assert units.starved() == []
        monkeypatch.setattr(units_module, "STARVED_SECONDS", 0.0)
        assert [run.record for run in units.starved()] == records[PLACES:]
        gate.open()
        units.outcomes(PLACES)
        assert (gate.began, units.waiting()) == (PLACES, 0)


class TestRoom:
    def learn(self, units: Listening, handler: Callable, handled: Callable, count: int = 40) -> None:
        handled(handler)
        units.run(*[make_claimed() for _ in range(count)])
        units.outcomes(count)
        units.forget([run.record for run in units.runs()])

    @pytest.mark.parametrize("handler", [succeed, succeed_async])
    def test_is_hundreds_for_quick_handlers_and_the_free_places_when_they_turn_slow(
        self, units, handled, gate, handler
    ):
        def are_known() -> bool:
            self.learn(units, handler, handled)
            return units.room("default") > 500

        eventually(are_known)  # what a busy machine holds up is not quick
        handled(gate.sync)
        units.run(*[make_claimed() for _ in range(PLACES)])
        eventually(lambda: gate.began == PLACES)
        eventually(lambda: units.room("default") == 0)

    def test_is_for_a_quarter_of_what_fits_ahead_or_none_until_as_many_are_done(
        self, units, handled, gate, monkeypatch
    ):
        handled(gate.sync)
        units._queues["default"].pace.learn(100 * AHEAD_SECONDS / 50, 100)  # 50 a place fit, 100 for both
        units.run(*[make_claimed() for _ in range(PLACES + 74)])
        eventually(lambda: gate.began == PLACES)
        began = sorted(run.began_at for run in units.busy())
        monkeypatch.setattr(units_module, "boot_seconds", lambda: began[0])
        assert units.room("default") == 26
        units.run(make_claimed())
        assert units.room("default") == 0
        assert (units._queues["default"]._enough, units.room_was_made.is_set()) == (74, False)
        monkeypatch.setattr(units_module, "boot_seconds", lambda: began[-1] + 2 * AHEAD_SECONDS)
        assert (units.room("default"), units._queues["default"]._enough) == (0, 0)  # both places are stuck

    def test_of_a_queue_that_feeds_another_is_its_places_only(self, handled):
        feeding = Listening(feeds="backups")
        self.learn(feeding, succeed_async, handled)
        assert feeding.room("default") == PLACES
        feeding.close()

    def test_is_none_while_too_many_results_wait_to_be_settled(self, units, handled, monkeypatch):
        monkeypatch.setattr(units_module, "MAX_UNSETTLED", 30)
        handled(succeed)
        units.run(*[make_claimed() for _ in range(40)])
        units.outcomes(40)
        assert units.room("default") == 0
        units.forget([run.record for run in units.runs()])
        assert units.room("default") > 0


@pytest.mark.parametrize("handler", [succeed, succeed_async])
def test_thousands_of_quick_records_give_one_outcome_each(units, handled, handler):
    handled(handler)
    records = [make_claimed() for _ in range(3_000)]
    for first in range(0, 3_000, 500):
        units.run(*records[first : first + 500])
    ended = Counter(units.ended.get(timeout=PATIENCE)[0].id for _ in records)
    assert ended == Counter(record.id for record in records)


def test_questions_that_hang_take_no_place_while_there_are_sockets(handled, gate, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "_handlers", {})  # others of this queue do not ask
    handled(gate.asynchronous)
    monkeypatch.setattr(units_module.sockets, "limit", 40)
    asking = Listening(feeds="backups")
    try:
        for _ in range(3):
            room = asking.room("default")
            if room:
                asking.run(*[make_claimed() for _ in range(min(room, 15))])
        eventually(lambda: gate.began == 40)
        assert asking.room("default") == 0
        assert asking.starved() == []
        gate.open()
        assert asking.outcomes(40) == [Succeeded()] * 40
        assert asking.room_was_made.wait(PATIENCE)
    finally:
        asking.stop_all()
        asking.close()
