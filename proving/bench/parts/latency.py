"""The time from the COMMIT of a single job to the start of its handler, in one worker: for a trickle, job after job.

The clock starts just before the COMMIT is sent, so its flush to disk counts; it stops in the first line of the handler.
All contestants' jobs come at RATE a second; ours and PgQueuer's at each of RATES, since a worker's wake-ups may be
quick at one and slow at another. The instants are spread at random around even ones, the same for all. A peer that is
too slow enqueues as fast as it can. django-q2 and django-tasks poll, every 50 ms here.
"""

import random
import time

from proving.bench.contestant import Contestant
from proving.bench.contestants.stamps import read_stamps
from proving.bench.processes import ContestantFailed, call, crew
from proving.bench.results import Key, percentile
from proving.bench.stage import Stage

ALL = ("ours-async", "ours-sync", "raw-single", "pgqueuer", "procrastinate", "django-q2", "django-tasks")
RATE = 8
RATES = (2, RATE, 20, 50, 200, 500)
SWEPT = ("ours-async", "pgqueuer")
TARGETS = {"p50": (0.5, "≤ 1.2"), "p99": (0.99, "≤ 3")}
TRICKLE_SECONDS = 10.0
"""Seconds of a trickle at a rate that has more than `letters` jobs in this time."""
WARM_UP = 5
"""The first jobs pay one-time costs."""
LAST_SECONDS = 3.0
LOOK_EVERY_SECONDS = 0.1


def run(stage: Stage) -> None:
    for _ in stage.repeats("latency"):
        for rate in RATES:
            for contestant in stage.cast(ALL if rate == RATE else SWEPT):
                with stage.trying(contestant):
                    latencies = measure(stage, contestant, rate)
                    found = {name: percentile(latencies, share) * 1000 for name, (share, _) in TARGETS.items()}
                    figures = ", ".join(f"{name} {value:.1f} ms" for name, value in found.items())
                    stage.say(f"latency: {contestant.name} at {rate} a second {figures}")
                    for name, value in found.items():
                        stage.results.add(_key(name, rate, contestant.name), value, "ms", f"{len(latencies)} jobs")
    for name, (_, target) in TARGETS.items():
        for rate in RATES:
            over, under = _key(name, rate, "ours-async"), _key(name, rate, "pgqueuer")
            stage.results.compare(f"latency {name}, {rate}/s: ours-async / pgqueuer", over, under, target)
        for peer in ("raw-single", "procrastinate"):
            over, under = _key(name, RATE, "ours-async"), _key(name, RATE, peer)
            stage.results.compare(f"latency {name}, {RATE}/s: ours-async / {peer}", over, under)


def _key(name: str, rate: int, contestant: str) -> Key:
    return Key("latency", f"{name}, {rate}/s", contestant)


def instants(rate: int, count: int) -> list[float]:
    """`count` instants, `rate` a second, each shifted by up to half of their distance. Always the same."""
    rng = random.Random(rate)  # noqa: S311 - figures, no secrets
    return [(number + rng.random()) / rate for number in range(count)]


def measure(stage: Stage, contestant: Contestant, rate: int) -> list[float]:
    """The seconds of each job except the first ones. Raises: ContestantFailed."""
    letters = stage.options.letters
    count = WARM_UP + min(max(letters, round(rate * TRICKLE_SECONDS)), 10 * letters)
    with stage.server.copy_of(stage.template(contestant, 0)) as database:
        url = stage.server.url(database)
        with crew(contestant, url, 1, stamp=True) as there:
            there.gate.open()
            sent = call(contestant, "trickle", url=url, at=instants(rate, count))
            deadline = time.monotonic() + LAST_SECONDS
            while len(started := read_stamps(there.starts)) < count and time.monotonic() < deadline:
                time.sleep(LOOK_EVERY_SECONDS)
    if len(started) < count:
        raise ContestantFailed(f"{contestant.name}: {count - len(started)} of {count} single jobs were not run")
    return [(started[number] - sent[number]) / 1e9 for number in range(WARM_UP, count)]
