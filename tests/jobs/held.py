"""Stands in for the units of a worker where no handler has to run."""

from jobs.handlers import Run
from jobs.worker.units import Units


class Held:
    """It holds these runs."""

    def __init__(self, *runs: Run) -> None:
        self._runs = {run.record.id: run for run in runs}
        self._ended: list[Run] = []

    def runs(self) -> list[Run]:
        return list(self._runs.values())

    def busy(self) -> list[Run]:
        return [run for run in self._runs.values() if run not in self._ended]

    def end(self, run: Run) -> None:
        """Its handler has ended; it is held until it is settled."""
        self._ended.append(run)

    def forget(self, run: Run) -> None:
        """It is settled."""
        del self._runs[run.record.id]

    def find(self, record_id: int) -> Run | None:
        return self._runs.get(record_id)

    def stop(self, run: Run) -> None:
        run.stop.set()

    give_up = Units.give_up
