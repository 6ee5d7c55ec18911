"""The runs that a worker holds: claimed, under way, or ended and not settled yet. Knows no database.

A worker claims of long handlers one record per free place, so that nothing waits in a claimed batch while another
worker is free; of quick ones as many more as the places will get through in a moment: for no-ops, hundreds.
"""

import logging
import threading
from collections.abc import Callable, Iterable

from external.sockets import sockets
from jobs.clock import boot_seconds
from jobs.conf import QueueRule
from jobs.handlers import Run, registry
from jobs.outcomes import ClaimedRecord, Outcome
from jobs.worker import database_threads
from jobs.worker.event_loop import EventLoop
from jobs.worker.handler_places import Done, UnitTasks, UnitThreads

log = logging.getLogger(__name__)

CANCELLED = "a user cancelled %s %s, stopping it"
LOST = "lost the lease of %s %s, stopping it"

MAX_UNSETTLED = 4000
"""Results that wait to be settled. If there are more, nothing is claimed: the database is away or too slow."""

STARVED_SECONDS = 0.5
"""Seconds after which a claimed run that could not begin is given back: something long has taken the places."""

AHEAD_SECONDS = 0.05
"""Claimed records wait for a place for about this long at most."""

MAX_CLAIM = 1000
"""Records in one claim: more in one statement gain nothing."""

MAX_AHEAD = 2 * MAX_CLAIM
"""One batch is claimed while the one before is worked through."""

NEW_WEIGHT = 0.5
"""The weight of the latest durations in the mean. Half: the mean follows a queue whose work changes within moments."""


class Pace:
    """The durations of one queue's handlers, learnt from earlier ones."""

    def __init__(self) -> None:
        self.mean_seconds: float | None = None
        self._seen = (0.0, 0)

    def learn(self, seconds: float, count: int) -> None:
        """Update the mean. `seconds`: the time that handlers have taken since the start; `count`: how many ended."""
        ended = count - self._seen[1]
        if ended <= 0:
            return
        mean = (seconds - self._seen[0]) / ended
        known = mean if self.mean_seconds is None else self.mean_seconds
        self.mean_seconds = NEW_WEIGHT * mean + (1 - NEW_WEIGHT) * known
        self._seen = (seconds, count)

    def ahead(self, places: int) -> int:
        """The number of records to hold beyond one for each place, for `places` that are not stuck in
        something long.
        """
        if self.mean_seconds is None or places <= 0:
            return 0
        return min(MAX_AHEAD, int(places * AHEAD_SECONDS / max(self.mean_seconds, 1e-9)))


class QueueUnits:
    """The places of one queue: threads for its sync handlers, tasks for its async ones."""

    def __init__(self, rule: QueueRule, loop: EventLoop, done: Done, after_thread: Callable[[], None]) -> None:
        self.rule = rule
        handlers = [where for where in registry.handlers() if where[1] == rule.name]
        # True if its handlers only ask, each in a task, on behalf of the queue that this one feeds
        self._asks = rule.feeds is not None and bool(handlers) and all(registry.is_async(*each) for each in handlers)
        self.tasks = UnitTasks(loop.loop, rule.concurrency, done, grows=self._asks)
        self.places = UnitThreads(rule.name, rule.concurrency, done, after_thread), self.tasks
        self.pace = Pace()
        self._both_kinds = False
        self._enough = 0
        self._wants_more = False

    def put(self, runs: list[Run]) -> None:
        by_places: tuple[list[Run], list[Run]] = ([], [])
        for run in runs:
            by_places[_is_async(run)].append(run)
        for places, some in zip(self.places, by_places, strict=True):
            if some:
                places.put(some)
        # threads and tasks each take `concurrency` runs: with both in use, none may be claimed ahead
        self._both_kinds = all(places.spent()[1] or some for places, some in zip(self.places, by_places, strict=True))

    def room(self) -> int:
        """The number of further records to claim now: as many as keep the places busy, in batches worth a statement.

        After an answer of 0, `made_room` determines when to ask again.
        """
        self._wants_more = True
        if self._asks:
            return self._room_to_ask()
        seconds, counts = zip(*(places.spent() for places in self.places), strict=True)
        self.pace.learn(sum(seconds), sum(counts))
        lately = boot_seconds() - AHEAD_SECONDS
        stuck = sum(run.began_at is not None and run.began_at < lately for run in self.busy())
        ahead = 0 if self.rule.feeds or self._both_kinds else self.pace.ahead(self.rule.concurrency - stuck)
        room = self.rule.concurrency + ahead - self.in_hand()
        worth_it = ahead // 4  # fewer records do not pay for a statement; `made_room` waits for as many
        self._enough = max(0, ahead - worth_it - 1)
        if room <= worth_it:
            return 0
        self._wants_more = False
        return min(room, MAX_CLAIM)

    def _room_to_ask(self) -> int:
        """The number of further questions to claim; sockets limit it, since one that hangs keeps no place busy."""
        in_hand = self.in_hand()
        room = max(self.rule.concurrency - in_hand, sockets.limit - max(sockets.open, in_hand))
        self._wants_more = room <= 0
        return max(0, min(room, MAX_CLAIM))

    def made_room(self) -> bool:
        """True if the handler that has just ended leaves room, after a question that found none. Once for each
        question.
        """
        if self._wants_more and self.waiting() <= self._enough:
            self._wants_more = False
            return True
        return False

    def in_hand(self) -> int:
        return sum(places.in_hand() for places in self.places)

    def busy(self) -> list[Run]:
        return [run for places in self.places for run in places.busy()]

    def starved(self, now: float) -> list[Run]:
        """Take back the runs that have waited for a place for too long at `now` (boot seconds)."""
        if self._asks:
            return []
        began = [run.began_at for run in self.busy()]
        if len(began) < self.rule.concurrency or any(at is None or now - at < STARVED_SECONDS for at in began):
            return []
        return self.take_back()

    def waiting(self) -> int:
        return sum(places.waiting() for places in self.places)

    def take_back(self) -> list[Run]:
        return [run for places in self.places for run in places.take_back()]


class Units:
    """All places and runs of one worker.

    `done(record, outcome)` is called once for each run, from the thread in which it ended; then `room_made()`, if
    `room` returned 0 before. `after_thread` is called after each sync handler, in its thread.
    """

    def __init__(
        self,
        rules: Iterable[QueueRule],
        done: Callable[[ClaimedRecord, Outcome], None],
        *,
        room_made: Callable[[], None],
        after_thread: Callable[[], None],
    ) -> None:
        self.loop = EventLoop()
        self._lock = threading.Lock()
        self._runs: dict[int, Run] = {}
        self._done = done
        self._room_made = room_made
        for rule in rules:
            database_threads.open_for(rule.name)
        self._queues = {rule.name: QueueUnits(rule, self.loop, self._ended, after_thread) for rule in rules}

    def start(self, records: list[ClaimedRecord], renewed_at: float) -> None:
        """Take in claimed records of one queue. `renewed_at`: boot seconds from before their claim was sent.

        An earlier attempt that still runs has lost its lease, perhaps unnoticed (a machine that slept): it is stopped.
        """
        runs = [Run(record, renewed_at) for record in records]
        with self._lock:
            earlier = [held for run in runs if (held := self._runs.get(run.record.id))]
            self._runs.update((run.record.id, run) for run in runs)
        for run in earlier:
            self.stop(run)
        self._queues[records[0].queue].put(runs)

    def room(self, queue: str) -> int:
        """The number of further records of `queue` to claim now."""
        return self._queues[queue].room() if self.unsettled() < MAX_UNSETTLED else 0

    def runs(self) -> list[Run]:
        """Everything held."""
        with self._lock:
            return list(self._runs.values())

    def unsettled(self) -> int:
        """The number of runs that have ended and are not settled yet."""
        return len(self._runs) - sum(queue.in_hand() for queue in self._queues.values())

    def waiting(self) -> int:
        """The number of runs that were claimed and have not begun."""
        return sum(queue.waiting() for queue in self._queues.values())

    def busy(self) -> list[Run]:
        """The runs whose handler runs now."""
        return [run for queue in self._queues.values() for run in queue.busy()]

    def busy_in_loop(self) -> list[Run]:
        """The runs whose handler runs in the event loop."""
        return [run for queue in self._queues.values() for run in queue.tasks.busy()]

    def holding_up_the_loop(self) -> list[Run]:
        """The runs of a loop that does not turn: the one whose handler blocks it, or all if that cannot be seen."""
        runs, at_work = self.busy_in_loop(), self.loop.current_task()
        return [run for run in runs if run.task is at_work] or runs

    def begun_lately(self, queue: str, seconds: float) -> int:
        """The number of runs of `queue` that were claimed and have run for less than `seconds`, or not begun."""
        units, since = self._queues[queue], boot_seconds() - seconds
        return units.waiting() + sum(run.began_at is None or run.began_at > since for run in units.busy())

    def find(self, record_id: int) -> Run | None:
        return self._runs.get(record_id)

    def starved(self) -> list[Run]:
        """Take back claimed runs that could not begin, since long ones have taken their queue's places."""
        now = boot_seconds()
        return [run for queue in self._queues.values() for run in queue.starved(now)]

    def take_back(self) -> list[Run]:
        """Take back everything that has not begun."""
        return [run for queue in self._queues.values() for run in queue.take_back()]

    def stop(self, run: Run) -> None:
        """Tell a handler to end now."""
        self._queues[run.record.queue].places[_is_async(run)].stop(run)

    def give_up(self, run: Run, message: str) -> None:
        """Stop it and log why, with its kind and subject, unless it has been stopped already or is no longer held."""
        if not run.is_stopped and self.find(run.record.id) is run:
            log.warning(message, run.record.kind, run.record.subject)
            self.stop(run)

    def stop_waiting_for_answers(self) -> None:
        """Cancel the async handlers of queues that feed others: asking a question again costs nothing.

        The others' work under way would be done twice.
        """
        for run in self.runs():
            if self._feeds(run) and _is_async(run):
                self.stop(run)

    def stop_for_a_hold(self) -> None:
        """Stop running and claimed records, except for async handlers that have sent something that cannot be taken
        back, such as a callback.
        """
        held = [run for run in self.runs() if not run.is_stopped]
        held = [run for run in held if run.began_at is None or self._feeds(run) or not _is_async(run)]
        if held:
            log.warning("everything is on hold: stopping the records that run here (%d)", len(held))
        for run in held:
            self.stop(run)

    def _feeds(self, run: Run) -> bool:
        return bool(self._queues[run.record.queue].rule.feeds)

    def stop_all(self) -> None:
        """Tell every handler to end now."""
        for run in self.runs():
            self.stop(run)

    def forget(self, records: Iterable[ClaimedRecord]) -> None:
        """They are settled. A later claim of the same record stays; after a failover it may have the same number."""
        with self._lock:
            for record in records:
                if (run := self._runs.get(record.id)) and run.record.lease_token == record.lease_token:
                    del self._runs[record.id]

    def close(self) -> None:
        """End threads and event loop; those still busy are left behind."""
        for name, queue in self._queues.items():
            for places in queue.places:
                places.close()
            database_threads.close_for(name)
        self.loop.close()

    def _ended(self, run: Run, outcome: Outcome) -> None:
        self._done(run.record, outcome)
        if self._queues[run.record.queue].made_room():
            self._room_made()


def _is_async(run: Run) -> bool:
    """True if its handler is async. As an index: that of its places in `QueueUnits.places`."""
    return registry.is_async(run.record.kind, run.record.queue)
