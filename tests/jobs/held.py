"""Stands in for the units of a worker where no handler has to run."""

from jobs.handlers import Run


class Held:
    """It holds these runs."""

    def __init__(self, *runs: Run) -> None:
        self._runs = {run.record.id: run for run in runs}

    def runs(self) -> list[Run]:
        return list(self._runs.values())

    def find(self, record_id: int) -> Run | None:
        return self._runs.get(record_id)

    def stop(self, run: Run) -> None:
        run.stop.set()
