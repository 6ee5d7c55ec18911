"""The growth of a worker: its resident memory while it works through many records."""

import psutil

from proving.bench.race import drain
from proving.bench.results import Key
from proving.bench.stage import Stage

NAME = "ours-async"
SAMPLES = 10
LONGEST_SECONDS = 300.0
MEGABYTE = 2**20


def run(stage: Stage) -> None:
    """Measure once, since only the growth within the run counts."""
    jobs = stage.options.memory_jobs
    for contestant in stage.cast([NAME]):
        sizes: list[float] = []

        def look(pids: list[int], called: int, sizes: list[float] = sizes) -> None:
            if called >= (len(sizes) + 1) * jobs // SAMPLES and len(sizes) < SAMPLES:
                sizes.append(psutil.Process(pids[0]).memory_info().rss / MEGABYTE)

        with stage.trying(contestant):
            drain(
                stage.server, contestant, stage.template(contestant, jobs), jobs, 1, look=look, longest=LONGEST_SECONDS
            )
            stage.say(f"memory: {', '.join(f'{size:.0f}' for size in sizes)} MB, every {jobs // SAMPLES:,} records")
            for case, size in (("first", sizes[0]), ("last", sizes[-1]), ("peak", max(sizes))):
                stage.results.add(Key("memory", case, contestant.name), size, "MB", f"{jobs:,} records")
            stage.results.compare(
                "memory: last / first sample",
                Key("memory", "last", contestant.name),
                Key("memory", "first", contestant.name),
            )
