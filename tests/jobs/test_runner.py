"""Runs of handlers in threads and on the event loop: each gives exactly one outcome, whatever it does."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from queue import SimpleQueue

import pytest

from jobs.handlers import Run, registry
from jobs.outcomes import Failed, Released, Succeeded
from jobs.worker.runner import Runner
from tests.factories import make_claimed


class Listening(Runner):
    """A runner of two threads that keeps what came of its runs."""

    def __init__(self) -> None:
        self.ended: SimpleQueue = SimpleQueue()
        super().__init__(2, lambda record, outcome: self.ended.put((record, outcome)), after_thread=lambda: None)

    def outcome(self):
        return self.ended.get(timeout=20)[1]


@pytest.fixture
def runner() -> Iterator[Listening]:
    runner = Listening()
    yield runner
    runner.stop_all()
    runner.close()


@pytest.fixture
def handled(monkeypatch):
    """Registers the handler of kind `test` in queue `default`."""
    monkeypatch.setattr(registry, "_handlers", dict(registry._handlers))
    return registry.handler("test", queue="default")


def return_nonsense(run: Run):
    return "done"


async def return_nonsense_async(run: Run):
    return None


def leave(run: Run):
    sys.exit(3)


async def leave_async(run: Run):
    sys.exit(3)


def interrupt(run: Run):
    raise KeyboardInterrupt


async def interrupt_async(run: Run):
    raise KeyboardInterrupt


MISBEHAVIOUR = [
    (return_nonsense, "returned 'done', which is no outcome"),
    (return_nonsense_async, "returned None, which is no outcome"),
    (leave, "SystemExit: 3"),
    (leave_async, "SystemExit: 3"),
    (interrupt, "KeyboardInterrupt"),
    (interrupt_async, "KeyboardInterrupt"),
]


class TestMisbehaviour:
    @pytest.mark.parametrize(("handler", "said"), MISBEHAVIOUR)
    def test_is_a_failure_that_says_what_happened_and_the_next_one_runs(self, runner, handled, handler, said):
        handled(handler)
        runner.start(make_claimed(), 0.0)
        outcome = runner.outcome()
        assert isinstance(outcome, Failed)
        assert said in outcome.error
        handled(lambda run: Succeeded())
        runner.start(make_claimed(), 0.0)
        assert runner.outcome() == Succeeded()

    def test_of_an_unknown_kind_names_the_kind_and_the_queue(self, runner):
        runner.start(make_claimed(kind="tape", queue="backups"), 0.0)
        assert "no handler for kind 'tape' in queue 'backups'" in runner.outcome().error

    def test_by_cancelling_itself_is_a_failure_and_no_endless_release(self, runner, handled):
        @handled
        async def cancelled(run: Run):
            raise asyncio.CancelledError

        runner.start(make_claimed(), 0.0)
        assert isinstance(runner.outcome(), Failed)


class TestStopping:
    def test_releases_an_async_handler_that_waits(self, runner, handled):
        waiting = threading.Event()

        @handled
        async def wait(run: Run):
            waiting.set()
            await asyncio.sleep(3600)

        runner.start(make_claimed(), 0.0)
        assert waiting.wait(20)
        runner.stop_waiting_for_answers()
        assert isinstance(runner.outcome(), Released)

    def test_releases_an_async_handler_that_had_no_time_to_begin(self, runner, handled):
        @handled
        async def begin(run: Run):
            return Succeeded()

        loop_is_free = threading.Event()
        runner._loop.call_soon_threadsafe(loop_is_free.wait, 20)
        runner.start(make_claimed(), 0.0)
        runner.stop_waiting_for_answers()
        loop_is_free.set()
        assert isinstance(runner.outcome(), Released)

    def test_tells_a_handler_in_a_thread(self, runner, handled):
        @handled
        def wait(run: Run):
            return Released() if run.stop.wait(20) else Failed("was not told")

        runner.start(make_claimed(), 0.0)
        runner.stop_all()
        assert isinstance(runner.outcome(), Released)

    def test_tells_an_earlier_attempt_when_the_record_is_claimed_once_more(self, runner, handled):
        handled(lambda run: Released() if run.stop.wait(20) else Failed("was not told"))
        first = make_claimed()
        second = replace(first, attempt=2)
        runner.start(first, 0.0)
        runner.start(second, 0.0)
        assert runner.ended.get(timeout=15) == (first, Released())
        assert [run.record for run in runner.runs()] == [second]


class TestPlaces:
    def test_are_taken_until_the_record_is_settled(self, runner, handled):
        handled(lambda run: Succeeded())
        record = make_claimed()
        runner.start(record, 0.0)
        runner.outcome()
        assert runner.running() == {"default": 1}
        runner.forget(record.id, record.attempt)
        assert not runner.running()

    def test_of_a_newer_attempt_are_not_freed_by_the_settle_of_an_older_one(self, runner, handled):
        handled(lambda run: Succeeded())
        record = make_claimed(attempt=2)
        runner.start(record, 0.0)
        runner.outcome()
        runner.forget(record.id, 1)
        assert [run.record for run in runner.runs()] == [record]
