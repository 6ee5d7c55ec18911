"""The time to decide which source is asked next, with a thousand and with a hundred thousand assignments due.

A worker decides when units become free: it asks how many sources they are short of, and claims. This is measured once
without throttles, and once with three, one of which is full and has half of all due assignments.
"""

from typing import cast

from proving.bench.contestants.backups import BackupsContestant
from proving.bench.processes import call
from proving.bench.results import Key, percentile
from proving.bench.stage import Stage

NAME = "backups-ours"
FEW = 1000
NO_LANES, LANES = "no throttle", "3 throttles, one full"
QUANTILES = (("p50", 0.5), ("p99", 0.99))
LEFT = 50
"""Some assignments are always left of the half that no full throttle holds back."""
TARGET = "≤ 2"


def run(stage: Stage) -> None:
    sizes = (FEW, stage.options.assignments)
    cases = (LANES,) if stage.options.hardest_only else (NO_LANES, LANES)
    for _ in stage.repeats("decide"):
        for contestant in stage.cast([NAME]):
            for lanes in cases:
                with stage.trying(contestant):
                    measure(stage, cast("BackupsContestant", contestant), sizes, lanes)
    for lanes in cases:
        for quantile, _ in QUANTILES:
            few, many = (Key("decide", case(quantile, size, lanes), NAME) for size in sizes)
            title = f"decision {quantile}, {lanes}: with {sizes[1]:,} due / with {FEW:,}"
            stage.results.compare(title, many, few, TARGET)
    stage.drop_templates()


def measure(stage: Stage, contestant: BackupsContestant, sizes: tuple[int, int], lanes: str) -> None:
    """Decide again and again, with few and with many due. Raises: ContestantFailed."""
    templates = {
        size: stage.template_by(contestant, "make_due", assignments=size, lanes=lanes == LANES) for size in sizes
    }
    for size, template in templates.items():  # right after each other, while the machine is as it is
        decisions = min(stage.options.decisions, size // 2 - LEFT)
        with stage.server.copy_of(template) as database:
            stage.server.checkpoint()
            times = call(contestant, "time_decisions", url=stage.server.url(database), times=decisions)
        for quantile, share in QUANTILES:
            value = percentile(times, share) * 1000
            stage.say(f"decide, {lanes}: {quantile} {value:.2f} ms with {size:,} due")
            stage.results.add(Key("decide", case(quantile, size, lanes), contestant.name), value, "ms")


def case(quantile: str, size: int, lanes: str) -> str:
    return f"{lanes}: {quantile}, {size:,} due"
