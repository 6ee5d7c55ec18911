"""Sixteen claimers under a cap of five jobs in flight: how fast, and does the cap hold?

Overshoots are counted in two ways: by the claimers themselves, between claim and settle, and by a session that counts
running records, every few milliseconds.

Then: how long does a claim take, by the number of throttled lanes and of records that run in them?
"""

from typing import cast

from proving.bench.contestants.capped import CAP, PROCESSES, RUNNING
from proving.bench.contestants.lanes import LIMIT, LanesOurs
from proving.bench.contestants.ours import WARM_UP
from proving.bench.processes import call
from proving.bench.race import drain
from proving.bench.results import Key, percentile
from proving.bench.stage import Stage

ALL = ("capped-ours", "capped-floor")
CASE = f"cap {CAP}"
LONGEST_SECONDS = 600.0

SWEPT = "lanes-ours"
SIZES = ((1, 10), (50, 1_000), (200, 200), (200, 2_000))
"""Lanes, and records that run in them."""


def run(stage: Stage) -> None:
    race(stage)
    sweep(stage)


def race(stage: Stage) -> None:
    jobs = stage.options.capped_jobs
    for _ in stage.repeats("capped", stage.options.capped_repeats):
        for contestant in stage.cast(ALL):
            with stage.trying(contestant):
                template = stage.template(contestant, jobs)
                drained = drain(
                    stage.server, contestant, template, jobs, PROCESSES, sample=RUNNING, longest=LONGEST_SECONDS
                )
                overshoots = len(drained.lines) + sum(count > CAP for count in drained.samples)
                most = max(drained.samples, default=0)
                stage.say(
                    f"capped: {contestant.name} {drained.rate:,.0f} jobs/s, {overshoots} overshoots, "
                    f"at most {most} in flight in {len(drained.samples)} samples"
                )
                stage.results.add(Key("capped", CASE, contestant.name), drained.rate, "jobs/s")
                stage.results.add(Key("capped", "overshoots", contestant.name), overshoots, f"in {jobs:,} jobs")
                stage.results.add(Key("capped", "most in flight", contestant.name), most, "jobs")
                if overshoots:
                    overshot = f"{contestant.name}: the cap of {CAP} was overshot {overshoots} times"
                    stage.results.failures.append(overshot)
    over, under = (Key("capped", CASE, name) for name in ALL)
    stage.results.compare("capped: ours / floor", over, under)


def sweep(stage: Stage) -> None:
    for _ in stage.repeats("capped", stage.options.capped_repeats):
        for contestant in stage.cast([SWEPT]):
            for lanes, running in SIZES:
                with stage.trying(contestant):
                    times = claim_times(stage, cast("LanesOurs", contestant), lanes, running)
                    value = percentile(times, 0.5) * 1000
                    stage.say(f"capped: a claim takes {value:.2f} ms with {running:,} running in {lanes} lanes")
                    stage.results.add(_key(lanes, running), value, "ms")
    few, many = _key(*SIZES[0]), _key(*SIZES[-1])
    stage.results.compare(f"capped, a claim: {many.case} / {few.case}", many, few, "≤ 5")


def claim_times(stage: Stage, contestant: LanesOurs, lanes: int, running: int) -> list[float]:
    """The seconds of each claim. Raises: ContestantFailed."""
    # no lane runs out of records before the last claim
    ready = (stage.options.claims + WARM_UP) * LIMIT + 10 * lanes
    template = stage.template_by(contestant, "fill", lanes=lanes, running=running, ready=ready)
    with stage.server.copy_of(template) as database:
        stage.server.checkpoint()
        found: list[float] = call(contestant, "time_claims", url=stage.server.url(database), times=stage.options.claims)
        return found


def _key(lanes: int, running: int) -> Key:
    return Key("capped", f"{lanes} lanes × {running:,} running", SWEPT)
