"""This project's event schedules: batches emitted, staggered, and launched.

`events-ours` is the project as it is, `events-copy` a bare COPY of the same rows.
"""

import time
from pathlib import Path

from proving.bench.contestants.ours import Ours, set_up

LAUNCHED = "launched"
QUEUE = "callbacks"
PLACES = 200


class Events(Ours):
    family = "events"

    def __init__(self, name: str = "events-ours") -> None:
        super().__init__(name, is_async=True)

    def make_batch(self, url: str, events: int, stagger: str) -> None:
        """Make a schedule whose trigger has come: see `proving/bench/fleets/events.py`."""
        set_up(url)
        from proving.bench.fleets import events as fleet

        fleet.make_batch(events, stagger)

    def time_batch(self, url: str) -> tuple[int, float, float]:
        """Returns the number of records, the seconds, and the growth of the process in MiB."""
        set_up(url)
        from proving.bench.fleets import events as fleet

        return fleet.emit()

    def starts(self, url: str) -> list[float]:
        """Returns when each event is to start, in seconds from the trigger."""
        set_up(url)
        from proving.bench.fleets import events as fleet

        return fleet.starts()

    def make_launches(self, url: str, staggered: int, window_for: int, plain: int) -> float:
        """Returns the instant of the triggers, in seconds since the epoch."""
        set_up(url)
        from proving.bench.fleets import events as fleet

        return fleet.make_launches(LAUNCHED, staggered, window_for, plain)

    def launch(self, url: str, ready: str) -> None:
        """Run a worker whose deliveries only record when they began. Ends at SIGTERM."""
        set_up(url)
        from jobs.conf import QueueRule
        from jobs.handlers import Kind, Run, registry
        from jobs.outcomes import Outcome, Succeeded
        from jobs.worker.process import WorkerProcess

        async def deliver(run: Run) -> Outcome:
            return Succeeded(facts={"began": time.time()})

        registry.add(Kind(LAUNCHED, home_queue=QUEUE))
        registry.handler(LAUNCHED, queue=QUEUE)(deliver)
        worker = WorkerProcess([QueueRule(QUEUE, PLACES)], grace=5)
        worker.install_signal_handlers()
        Path(ready).touch()
        worker.run()


class EventsByCopy(Events):
    def __init__(self) -> None:
        super().__init__("events-copy")

    def time_batch(self, url: str) -> tuple[int, float, float]:
        set_up(url)
        from proving.bench.fleets import events as fleet

        return fleet.copy()
