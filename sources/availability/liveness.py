"""Watches a running copy, so that a source which vanishes in mid-backup does not hold its execution unit for long.

Being slow is not vanishing: a source without progress is asked whether it is there, and only one that stays silent for
the whole grace of its policy is let go.

progress seen                       nothing is asked
none for LOOK_AFTER_SECONDS         it is asked; each answer gives it as long again
it does not answer                  asked again every ASK_AGAIN_SECONDS, until it answers or gets on
silent for the grace                the copy is stopped, and `vanished`
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

from sources.availability import answers
from sources.availability.answers import Answer
from sources.engines.base import EngineProgress, StopSignal
from sources.models import Policy, Source

log = logging.getLogger(__name__)

LOOK_AFTER_SECONDS = 10.0
ASK_AGAIN_SECONDS = 3.0
LONGEST_ASK_SECONDS = 10.0
"""A source that was there a moment ago answers sooner than one that wakes up."""
ENDING_SECONDS = 5.0

Asker = Callable[[Source, float], Awaitable[Answer]]


@dataclass
class Silence:
    """How long a source has been silent, on any clock of seconds. Pure.

    `alive_at`: when it last got on or answered. `silent_since`: when the first question was put that it left
    unanswered; None: it left none.
    """

    grace: float
    alive_at: float
    silent_since: float | None = None

    def gets_on(self, now: float) -> None:
        """There was progress, or an answer."""
        self.alive_at, self.silent_since = now, None

    def stays_silent(self, asked_at: float) -> None:
        """A question put at `asked_at` was not answered. Progress since then is answer enough."""
        if self.alive_at <= asked_at and self.silent_since is None:
            self.silent_since = asked_at

    def is_over(self, now: float) -> bool:
        """Whether it has been silent for the whole grace."""
        return self.silent_since is not None and now - self.silent_since >= self.grace

    def seconds_until_question(self, now: float) -> float:
        """How long to wait before asking next."""
        if self.silent_since is None:
            return max(0.0, self.alive_at + LOOK_AFTER_SECONDS - now)
        return max(0.0, min(ASK_AGAIN_SECONDS, self.silent_since + self.grace - now))


class LivenessMonitor:
    """A copy under watch, for a `with` block.

    Give the engine `stop` (set when either the run's own stop is, or the source has vanished) and
    `watching(listener)` as its `on_progress`. Afterwards `vanished` says whether the source did, and `said` what its
    last silence was. A thread of its own asks; it ends with the block, also in mid-question.
    """

    def __init__(
        self,
        source: Source,
        policy: Policy,
        stop: StopSignal,
        *,
        ask: Asker = answers.ask,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.vanished = False
        self.said = ""
        self.stop: StopSignal = _EitherStop(stop, self)
        self._source, self._ask, self._clock = source, ask, clock
        self._timeout = min(policy.connect_timeout, LONGEST_ASK_SECONDS)
        self._silence = Silence(policy.vanish_grace, clock())
        self._last_seen: EngineProgress | None = None
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._question: tuple[asyncio.AbstractEventLoop, asyncio.Task[Answer]] | None = None
        self._thread = threading.Thread(target=self._watch, name=f"liveness-{source.name}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._ending.set()
            if self._question is not None:
                loop, task = self._question
                loop.call_soon_threadsafe(task.cancel)
        self._thread.join(ENDING_SECONDS)

    def watching(self, listener: Callable[[EngineProgress], None]) -> Callable[[EngineProgress], None]:
        """Like `listener`, and noted here. Engines report twice a second; only figures that grow are progress: what an
        engine takes back, when it tries again in vain, is none."""

        def watch(progress: EngineProgress) -> None:
            if _has_grown(self._last_seen, progress):
                with self._lock:
                    self._silence.gets_on(self._clock())
            self._last_seen = progress
            listener(progress)

        return watch

    def _watch(self) -> None:
        while not self._ending.wait(self._seconds_until_question()) and not self.vanished:
            if self._seconds_until_question() > 0 and self._silence.silent_since is None:
                continue  # it has got on in the meantime
            asked_at = self._clock()
            try:
                answer = asyncio.run(self._put_question())
            except asyncio.CancelledError:
                return
            except Exception:
                log.exception("cannot ask whether %s is still there; its copy goes on", self._source.name)
                answer = Answer(True, "")
            self._judge(answer, asked_at)

    def _seconds_until_question(self) -> float:
        with self._lock:
            return self._silence.seconds_until_question(self._clock())

    async def _put_question(self) -> Answer:
        task = asyncio.ensure_future(self._ask(self._source, self._timeout))
        with self._lock:
            if self._ending.is_set():
                task.cancel()
            self._question = asyncio.get_running_loop(), task
        try:
            return await task
        finally:
            with self._lock:
                self._question = None

    def _judge(self, answer: Answer, asked_at: float) -> None:
        with self._lock:
            now = self._clock()
            was_silent = self._silence.silent_since is not None
            if answer.present:
                self._silence.gets_on(now)
            else:
                self._silence.stays_silent(asked_at)
            is_silent = self._silence.silent_since is not None
            if is_silent:
                self.said = answer.said
            self.vanished = self._silence.is_over(now)
        if self.vanished:
            log.warning("%s has vanished in mid-backup: %s", self._source.name, answer.said)
        elif is_silent != was_silent:
            log.info("%s in mid-backup: %s", self._source.name, answer.said or "it gets on")


def _has_grown(before: EngineProgress | None, progress: EngineProgress) -> bool:
    return before is None or (
        progress.bytes_done > before.bytes_done
        or progress.files_done > before.files_done
        or progress.bytes_total > before.bytes_total
    )


class _EitherStop:
    """Set when the run's own stop is, or the monitor's source has vanished."""

    def __init__(self, of_run: StopSignal, monitor: LivenessMonitor) -> None:
        self._of_run, self._monitor = of_run, monitor

    def is_set(self) -> bool:
        return self._monitor.vanished or self._of_run.is_set()
