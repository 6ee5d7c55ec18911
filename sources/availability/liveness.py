"""Watches a running copy, so that a source which vanishes in mid-backup does not hold its execution unit for long.

Being slow is not vanishing: a source without progress is asked whether it is there, and only one that stays silent for
the whole grace of its policy is let go.

progress                            nothing is asked
none for LOOK_AFTER_SECONDS         the source is asked; after each answer the same time begins again
it does not answer                  asked again every ASK_AGAIN_SECONDS, until it answers or there is progress
silent for the grace                the copy is stopped: the source has `vanished`
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from engines.base import EngineProgress
from external.processes.runner import StopSignal
from jobs.clock import boot_seconds
from sources.availability import probes
from sources.availability.probes import Answer
from sources.models import Policy, Source

log = logging.getLogger(__name__)

LOOK_AFTER_SECONDS = 10.0
ASK_AGAIN_SECONDS = 3.0
LONGEST_ASK_SECONDS = 10.0
"""The longest wait for an answer: a source that was there a moment ago answers sooner than one that wakes up."""

Asker = Callable[[Source, float], Answer]


@dataclass
class Silence:
    """The silence of a source, on any clock of seconds. Pure.

    `alive_at`: the last progress or answer. `silent_since`: the time of the first question that it has not answered;
    None if there is none.
    """

    grace: float
    alive_at: float
    silent_since: float | None = None

    def note_progress(self, now: float) -> None:
        """Note progress, or an answer."""
        self.alive_at, self.silent_since = now, None

    def note_silence(self, asked_at: float) -> None:
        """A question put at `asked_at` was not answered. Progress since then is answer enough."""
        if self.alive_at <= asked_at and self.silent_since is None:
            self.silent_since = asked_at

    def is_over(self, now: float) -> bool:
        """True if it has been silent for the whole grace."""
        return self.silent_since is not None and now - self.silent_since >= self.grace

    def seconds_until_question(self, now: float) -> float:
        """The seconds to wait before the next question."""
        if self.silent_since is None:
            return max(0.0, self.alive_at + LOOK_AFTER_SECONDS - now)
        return max(0.0, min(ASK_AGAIN_SECONDS, self.silent_since + self.grace - now))


class LivenessMonitor:
    """A copy under watch, for a `with` block. Its engine uses it as the stop signal: set when the run's `stop` is set,
    when the window has closed (after `closes_in` seconds; None means never), or when the source has vanished.

    Give the engine `watching(listener)` as its `on_progress`. `closed` and `vanished` are the reasons why it was
    stopped, and `silence` is its last silence. A separate thread asks; after the block its last answer no longer
    counts.
    """

    def __init__(
        self,
        source: Source,
        policy: Policy,
        stop: StopSignal,
        *,
        closes_in: float | None = None,
        ask: Asker = probes.ask_now,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.vanished = False
        self.silence = ""
        self._source, self._stop, self._ask, self._clock = source, stop, ask, clock
        self._closes_at = float("inf") if closes_in is None else boot_seconds() + closes_in
        self._timeout = min(policy.connect_timeout, LONGEST_ASK_SECONDS)
        self._silence = Silence(policy.vanish_grace, clock())
        self._last_seen: EngineProgress | None = None
        self._lock = threading.Lock()
        self._ending = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, name=f"liveness-{self._source.name}", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()

    @property
    def closed(self) -> bool:
        return boot_seconds() >= self._closes_at

    def is_set(self) -> bool:
        return self.vanished or self.closed or self._stop.is_set()

    def watching(self, listener: Callable[[EngineProgress], None]) -> Callable[[EngineProgress], None]:
        """A listener that notes progress here and calls `listener`. Engines report twice a second; only figures that
        grow count as progress, since an engine that tries again takes back its earlier counts."""

        def watch(progress: EngineProgress) -> None:
            if _has_grown(self._last_seen, progress):
                with self._lock:
                    self._silence.note_progress(self._clock())
            self._last_seen = progress
            listener(progress)

        return watch

    def _watch(self) -> None:
        while not self._ending.wait(self._seconds_until_question()) and not self.vanished:
            if self._seconds_until_question() > 0 and self._silence.silent_since is None:
                continue  # there was progress in the meantime
            asked_at = self._clock()
            try:
                answer = self._ask(self._source, self._timeout)
            except Exception:
                log.exception("cannot ask whether %s is still there; its copy continues", self._source.name)
                answer = Answer(True, "")
            if not self._ending.is_set():
                self._judge(answer, asked_at)

    def _seconds_until_question(self) -> float:
        with self._lock:
            return self._silence.seconds_until_question(self._clock())

    def _judge(self, answer: Answer, asked_at: float) -> None:
        with self._lock:
            now = self._clock()
            was_silent = self._silence.silent_since is not None
            if answer.present:
                self._silence.note_progress(now)
            else:
                self._silence.note_silence(asked_at)
            is_silent = self._silence.silent_since is not None
            if is_silent:
                self.silence = answer.text
            self.vanished = self._silence.is_over(now)
        if self.vanished:
            log.warning("%s has vanished in mid-backup: %s", self._source.name, answer.text)
        elif is_silent != was_silent:
            log.info("%s in mid-backup: %s", self._source.name, answer.text or "its copy makes progress again")


def _has_grown(before: EngineProgress | None, progress: EngineProgress) -> bool:
    return before is None or (
        progress.bytes_done > before.bytes_done
        or progress.files_done > before.files_done
        or progress.bytes_total > before.bytes_total
    )
