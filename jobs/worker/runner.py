"""Runs handlers: sync ones in threads, async ones on one event loop. Knows no database."""

import asyncio
import inspect
import logging
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from jobs.handlers import Handler, Run, outcome_or_failure, registry
from jobs.outcomes import Claimed, Failed, Outcome, Released

log = logging.getLogger(__name__)


class Runner:
    """The handlers that run now.

    `done(record, outcome)` is called from the thread that ran the handler. The threads live as long as the runner:
    an engine's parent-death signal is tied to the thread that started it.
    """

    def __init__(
        self, threads: int, done: Callable[[Claimed, Outcome], None], after_thread: Callable[[], None]
    ) -> None:
        self._done = done
        self._after_thread = after_thread
        self._lock = threading.Lock()
        self._runs: dict[int, Run] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="unit")
        self._loop = asyncio.new_event_loop()
        self._loop_thread = threading.Thread(target=self._loop.run_forever, name="event-loop", daemon=True)
        self._loop_thread.start()

    def start(self, record: Claimed, renewed_at: float) -> None:
        """Begin to run a claimed record. `renewed_at`: boot seconds from before its claim was sent.

        An earlier attempt that still runs has lost its lease, perhaps unnoticed (a machine that slept): it is stopped.
        """
        run = Run(record, renewed_at)
        with self._lock:
            earlier = self._runs.get(record.id)
            self._runs[record.id] = run
        if earlier:
            earlier.stop.set()
        handler = registry.find(record.kind, record.queue)
        if inspect.iscoroutinefunction(handler):
            self._loop.call_soon_threadsafe(self._start_task, handler, run)
        else:
            self._pool.submit(self._run_in_thread, handler, run)

    def runs(self) -> list[Run]:
        """The runs that have not ended."""
        with self._lock:
            return list(self._runs.values())

    def running(self) -> Counter[str]:
        """How many run, by queue."""
        return Counter(run.record.queue for run in self.runs())

    def stop_waiting_for_answers(self) -> None:
        """Cancel the async handlers: they hold nothing that would be lost."""
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._tasks.values()])

    def stop_all(self) -> None:
        """Tell every handler to end now."""
        for run in self.runs():
            run.stop.set()
        self.stop_waiting_for_answers()

    def close(self) -> None:
        """End the threads; those still busy are left behind."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._loop_thread.join(timeout=5)
        if not self._loop_thread.is_alive():
            self._loop.close()

    def _start_task(self, handler: Handler, run: Run) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            if self._tasks.get(run.record.id) is task:
                del self._tasks[run.record.id]
            if task.cancelled():  # before its first step, so nothing of `_run_on_loop` has run
                self._end(run, Released())

        task = self._loop.create_task(self._run_on_loop(handler, run))
        self._tasks[run.record.id] = task
        task.add_done_callback(ended)

    async def _run_on_loop(self, handler: Handler, run: Run) -> None:
        try:
            outcome = outcome_or_failure(await handler(run))  # type: ignore[misc]
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            # what nobody cancelled would be released, claimed and raised again for ever
            outcome = Released() if task and task.cancelling() else _failure(run, error)
        except BaseException as error:
            outcome = _failure(run, error)
        self._end(run, outcome)

    def _run_in_thread(self, handler: Handler, run: Run) -> None:
        try:
            outcome = outcome_or_failure(handler(run))
        except BaseException as error:  # SystemExit in a handler must not end a unit
            outcome = _failure(run, error)
        finally:
            self._after_thread()
        self._end(run, outcome)

    def _end(self, run: Run, outcome: Outcome) -> None:
        self._done(run.record, outcome)

    def forget(self, record_id: int, attempt: int) -> None:
        """The record is settled: its place is free."""
        with self._lock:
            if record_id in self._runs and self._runs[record_id].record.attempt == attempt:
                del self._runs[record_id]


def _failure(run: Run, error: BaseException) -> Failed:
    record = run.record
    log.error("handler of %s %s raised", record.kind, record.subject, exc_info=error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Failed(f"{type(error).__name__}: {error} (in {last.name}, line {last.lineno} of {last.filename})")
