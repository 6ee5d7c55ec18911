"""The time of a claim of one record, with a thousand and with a million records ready."""

from typing import cast

from proving.bench.contestants.ours import Ours
from proving.bench.processes import call
from proving.bench.results import Key, percentile
from proving.bench.stage import BEHIND, Stage

FEW = 1000
NAME = "ours-async"


def run(stage: Stage) -> None:
    sizes = [FEW, stage.options.others] if stage.options.others else [FEW]
    for _ in stage.repeats("claim"):
        for contestant in stage.cast([NAME]):
            for size in sizes:
                with stage.trying(contestant):
                    measure(stage, cast("Ours", contestant), size)
    for quantile in ("p50", "p99"):
        few, many = (Key("claim", f"{quantile}, {size:,} ready", NAME) for size in (FEW, stage.options.others))
        stage.results.compare(f"claim {quantile}: with {stage.options.others:,} ready / with {FEW:,}", many, few)
    stage.drop_templates()


def measure(stage: Stage, contestant: Ours, size: int) -> None:
    """Claim one record after the other. Raises: ContestantFailed."""
    with stage.server.copy_of(stage.template(contestant, 0, size, BEHIND)) as database:
        stage.server.checkpoint()
        times = call(contestant, "time_claims", url=stage.server.url(database), times=stage.options.claims)
    for quantile, share in (("p50", 0.5), ("p99", 0.99)):
        value = percentile(times, share) * 1000
        stage.say(f"claim: {quantile} {value:.2f} ms with {size:,} ready")
        stage.results.add(Key("claim", f"{quantile}, {size:,} ready", contestant.name), value, "ms")
