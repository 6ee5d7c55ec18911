"""The speed at which one and two worker processes work a backlog off, also with a million other jobs around it.

`proving/bench/race.py` has the clock. Slow peers drain fewer jobs: jobs a second are compared.
"""

from proving.bench.contestant import Contestant
from proving.bench.race import drain
from proving.bench.results import Key
from proving.bench.stage import BEHIND, BESIDE, Stage

ALL = (
    "ours-async",
    "ours-sync",
    "statements-overlapped",
    "statements-serial",
    "raw-batched",
    "raw-single",
    "pgqueuer",
    "procrastinate",
    "django-q2",
    "django-tasks",
)
WITH_OTHERS = ("ours-async", "raw-batched", "pgqueuer")
ALL_WITH_OTHERS = (*WITH_OTHERS, "procrastinate", "django-tasks")
"""django-q2 has no priorities, so no jobs can be put behind others."""
WORKERS = (1, 2)
NONE = "no others"


def run(stage: Stage) -> None:
    alone(stage)
    beside_others(stage)
    compare(stage)


def alone(stage: Stage) -> None:
    for _ in stage.repeats("drain"):
        for workers in WORKERS:
            for contestant in stage.cast(ALL):
                measure(stage, contestant, workers, case=_workers(workers))


def beside_others(stage: Stage) -> None:
    """Measure the drains with others. Each contestant drains alone once more, so that both sides of a ratio come from
    the same minute."""
    names = ALL_WITH_OTHERS if stage.options.all_beside_others else WITH_OTHERS
    others = stage.options.others
    for _ in stage.repeats("drain with others") if others else ():
        for contestant in stage.cast(names):
            measure(stage, contestant, 1, case=NONE)
            for where in (BEHIND, BESIDE):
                measure(stage, contestant, 1, case=f"{others:,} {where}", others=others, where=where)
    stage.drop_templates()


def measure(stage: Stage, contestant: Contestant, workers: int, *, case: str, others: int = 0, where: str = "") -> None:
    jobs = stage.jobs_of(contestant)
    with stage.trying(contestant):
        template = stage.template(contestant, jobs, others, where)
        drained = drain(stage.server, contestant, template, jobs, workers)
        stage.say(f"drain, {case}: {contestant.name} {drained.rate:,.0f} jobs/s")
        note = f"of {jobs:,} jobs" if jobs < stage.options.jobs else ""
        stage.results.add(Key("drain", case, contestant.name), drained.rate, "jobs/s", note)


def compare(stage: Stage) -> None:
    compared = stage.results.compare
    for workers in WORKERS:
        case = _workers(workers)
        for ours, peer in (
            ("ours-async", "pgqueuer"),
            ("ours-sync", "pgqueuer"),
            ("ours-async", "raw-batched"),
            ("ours-sync", "raw-batched"),
            ("ours-async", "statements-overlapped"),
            ("ours-async", "statements-serial"),
        ):
            compared(f"drain, {case}: {ours} / {peer}", Key("drain", case, ours), Key("drain", case, peer))
    for where in (BEHIND, BESIDE):
        case = f"{stage.options.others:,} {where}"
        for name in ALL_WITH_OTHERS:
            compared(f"drain: {name} with {case} / without", Key("drain", case, name), Key("drain", NONE, name))
        over, under = Key("drain", case, "ours-async"), Key("drain", case, "pgqueuer")
        compared(f"drain, {case}: ours-async / pgqueuer", over, under)


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"
