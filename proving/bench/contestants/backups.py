"""This project's backups: fleets, the decisions about them, and the processes that back them up.

`backups-ours` is the project as it is, `backups-copy` a bare COPY of rows like an emission's. Their commands make a
fleet in an empty database, measure something on it, or become one of the project's processes.
"""

import os
import sys
from pathlib import Path
from typing import Any

from proving.bench.contestants.ours import SETTINGS, Ours, set_up


class BackupsContestant(Ours):
    family = "backups"

    def __init__(self, name: str = "backups-ours") -> None:
        super().__init__(name, is_async=True)

    def make_fleet(self, url: str, assignments: int, policies: int, *, throttled: bool) -> None:
        """Make a fleet that is due and not emitted: see `proving/bench/fleets/making.py`."""
        set_up(url)
        from proving.bench.fleets import making

        making.make_fleet(assignments, policies, throttled=throttled)

    def time_emission(self, url: str) -> tuple[int, float, int]:
        """Returns the number of records, the seconds, and the number of statements."""
        set_up(url)
        from proving.bench.fleets import emission

        return emission.emit()

    def make_due(self, url: str, assignments: int, *, lanes: bool) -> None:
        """Make a fleet that is due and emitted: see `proving/bench/fleets/decisions.py`."""
        set_up(url)
        from proving.bench.fleets import decisions

        decisions.make_due(assignments, lanes=lanes)

    def time_decisions(self, url: str, times: int) -> list[float]:
        """Returns the seconds of each decision."""
        set_up(url)
        from proving.bench.fleets import decisions

        return decisions.time_decisions(times)

    def make_sweep(self, url: str, **values: Any) -> None:
        """Make sources that answer among sources that do not: see `proving/bench/fleets/sweep.py`."""
        set_up(url)
        from proving.bench.fleets import sweep

        sweep.make(**values)

    def make_arrivals(self, url: str, sources: int, directory: str, **beside: int) -> list[tuple[int, str]]:
        """Make silent sources whose agents may check in. Returns for each its assignment's id and its token."""
        set_up(url)
        from proving.bench.fleets import arrivals

        return arrivals.make(sources, directory, **beside)

    def make_files(self, url: str, home: str, files: int, size: int) -> None:
        """Make the files to copy: see `proving/bench/fleets/copies.py`."""
        set_up(url)
        from proving.bench.fleets import copies

        copies.make_files(Path(home), files, size)

    def time_copies(
        self, url: str, home: str, files: int, size: int, *, ours_first: bool, with_restic: bool, kind: str
    ) -> dict[str, dict[str, float]]:
        """Returns the seconds of a first, an unchanged and a changed copy of a source of that kind, by the program
        alone and by a backup."""
        set_up(url)
        from proving.bench.fleets import copies

        how = {"ours_first": ours_first, "with_restic": with_restic}
        return copies.time_pair(Path(home), files, size, kind=kind, **how)

    def read_progress(self, url: str, home: str, lines: int) -> float:
        """Returns the processor seconds that lines of restic's progress cost."""
        set_up(url)
        from proving.bench.fleets import copies

        return copies.read_progress(Path(home), lines)

    def make_aged(self, url: str, sources: int, directory: str) -> None:
        """Make a fleet as it is after thirty days: see `proving/bench/fleets/aged.py`."""
        set_up(url)
        from proving.bench.fleets import aged

        aged.make(sources, directory)

    def open_pages(self, url: str, directory: str, wanted: list[str], repeats: int) -> dict[str, Any]:
        """Returns the costs of each page: see `proving/bench/fleets/surfaces.py`."""
        _look(url, directory)
        from proving.bench.fleets import surfaces

        return surfaces.open_pages(wanted, repeats)

    def run_command(self, url: str, directory: str, name: str) -> dict[str, Any]:
        """Returns the costs of one command."""
        _look(url, directory)
        from proving.bench.fleets import surfaces

        return surfaces.run_command(name, directory)

    def run_minute(self, url: str, directory: str) -> dict[str, Any]:
        """Returns the costs of the minute's round."""
        _look(url, directory)
        from proving.bench.fleets import surfaces

        return surfaces.run_minute()

    def become(self, url: str, arguments: list[str], variables: dict[str, str]) -> None:
        """Turn this process into `python ARGUMENTS…` of the project. Never returns.

        It still ends with the bench: the kernel was asked for this before, and the request outlives the exec.
        """
        environment = {**os.environ, **SETTINGS, **variables, "DATABASE_URL": url}
        os.execve(sys.executable, [sys.executable, *arguments], environment)  # noqa: S606 - our own


def _look(url: str, directory: str) -> None:
    """Set up Django for a process that examines a fleet from this host."""
    os.environ.update(BACKUPSCHED_VAR=f"{directory}/var", BACKUPSCHED_METRICS_NETWORKS="127.0.0.0/8")
    set_up(url)


class BackupsByCopy(BackupsContestant):
    def __init__(self) -> None:
        super().__init__("backups-copy")

    def time_emission(self, url: str) -> tuple[int, float, int]:
        set_up(url)
        from proving.bench.fleets import emission

        return emission.copy()
