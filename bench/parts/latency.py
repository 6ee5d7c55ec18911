"""From the COMMIT of a single job to the start of its handler, by a worker that has nothing else to do.

The clock starts just before the COMMIT is sent, so its flush to disk counts; it stops in the first line of the handler.
Jobs are SPACING_SECONDS apart. django-q2 and django-tasks poll, every 50 ms here.
"""

import time

from bench.contestants.base import Contestant
from bench.contestants.stamps import read_stamps
from bench.gate import GateTimeout
from bench.processes import ContestantFailed, call, crew
from bench.results import Key, percentile
from bench.stage import Stage

ALL = ("ours-async", "ours-sync", "raw-single", "pgqueuer", "procrastinate", "django-q2", "django-tasks")
SPACING_SECONDS = 0.12
WARM_UP = 5
"""The first jobs pay for what is done once."""
LAST_SECONDS = 3.0


def run(stage: Stage) -> None:
    for _ in stage.repeats("latency"):
        for contestant in stage.cast(ALL):
            try:
                latencies = measure(stage, contestant)
            except (ContestantFailed, GateTimeout) as error:
                stage.fail(contestant, error)
                continue
            half, most = percentile(latencies, 0.5) * 1000, percentile(latencies, 0.99) * 1000
            stage.say(f"latency: {contestant.name} p50 {half:.1f} ms, p99 {most:.1f} ms")
            stage.results.add(Key("latency", "p50", contestant.name), half, "ms")
            stage.results.add(Key("latency", "p99", contestant.name), most, "ms")
    for case in ("p50", "p99"):
        for peer in ("pgqueuer", "raw-single", "procrastinate"):
            over, under = Key("latency", case, "ours-async"), Key("latency", case, peer)
            stage.results.compare(f"latency {case}: ours-async / {peer}", over, under)


def measure(stage: Stage, contestant: Contestant) -> list[float]:
    """The seconds of each job but the first ones. Raises: ContestantFailed."""
    count = stage.options.letters + WARM_UP
    with stage.server.copy_of(stage.template(contestant, 0)) as database:
        url = stage.server.url(database)
        with crew(contestant, url, 1, stamp=True) as there:
            there.gate.open()
            sent = call(contestant, "trickle", url=url, count=count, spacing=SPACING_SECONDS)
            deadline = time.monotonic() + LAST_SECONDS
            while len(started := read_stamps(there.starts)) < count and time.monotonic() < deadline:
                time.sleep(SPACING_SECONDS)
    if len(started) < count:
        raise ContestantFailed(f"{contestant.name}: {count - len(started)} of {count} single jobs were not run")
    return [(started[number] - sent[number]) / 1e9 for number in range(WARM_UP, count)]
