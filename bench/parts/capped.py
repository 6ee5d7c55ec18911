"""Sixteen claimers under a cap of five jobs in flight: how fast, and does the cap hold?

Overshoots are counted twice over: by the claimers themselves, between claim and settle, and by a session that counts
what runs, every few milliseconds.
"""

from bench.contestants.capped import CAP, PROCESSES, RUNNING
from bench.gate import GateTimeout
from bench.processes import ContestantFailed
from bench.race import drain
from bench.results import Key
from bench.stage import Stage

ALL = ("capped-ours", "capped-floor")
CASE = f"cap {CAP}"
LONGEST_SECONDS = 600.0


def run(stage: Stage) -> None:
    jobs = stage.options.capped_jobs
    for _ in stage.repeats("capped", stage.options.capped_repeats):
        for contestant in stage.cast(ALL):
            try:
                template = stage.template(contestant, jobs)
                drained = drain(
                    stage.server, contestant, template, jobs, PROCESSES, sample=RUNNING, longest=LONGEST_SECONDS
                )
            except (ContestantFailed, GateTimeout) as error:
                stage.fail(contestant, error)
                continue
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
                stage.results.failures.append(f"{contestant.name}: the cap of {CAP} was overshot {overshoots} times")
    over, under = (Key("capped", CASE, name) for name in ALL)
    stage.results.compare("capped: ours / floor", over, under)
