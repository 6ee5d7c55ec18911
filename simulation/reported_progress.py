"""The progress that a simulated backup reports. As with real ones, the rest of its time by progress is wrong by a
log-normal factor. The factor is drawn from a separate stream of the source, so that nothing else changes. Forecasts
depend on progress; the decisions of schedulers do not.
"""

import random
from math import exp

from operations.backlog.ends import LEAST_SECONDS, LEAST_SHARE, TAIL, RunProgress
from simulation.machines import SimulatedMachine, SimulatedRun


def reported(
    run: SimulatedRun, machine: SimulatedMachine, now: float, *, done: float, spread: float, seed: int
) -> RunProgress | None:
    """The progress at `now`, in seconds since the fleet's start; None if it is too early for any. `done`: the share of
    its work that an earlier run has done; `spread`: the standard deviation of the logarithm of the rest by progress.
    A source that will leave reports the progress of the whole work.
    """
    so_far = now - run.begins
    if so_far < LEAST_SECONDS:
        return None
    stream = random.Random(f"{seed}/{machine.source.name}/progress/{run.begins}")  # noqa: S311 - no secrets
    rest = max(0.0, machine.takes(run.begins, first=run.first) * (1.0 - done) - so_far)
    share = 1.0 / max(1.0, 1.0 + rest * exp(stream.gauss(0.0, spread)) / so_far - TAIL)
    return RunProgress(share, so_far) if share >= LEAST_SHARE else None
