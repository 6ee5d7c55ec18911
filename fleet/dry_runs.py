"""The effect of an edit on the fleet, as the layers above compute it: the effects that they register here are shown
before a policy is saved.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from django.utils.safestring import SafeString

from sources.models import Policy


@dataclass(frozen=True)
class Effect:
    """Sentences about the changes that an edit would make, and a chart. `is_worse`: it is not saved before a user
    agrees.
    """

    lines: list[str] = field(default_factory=list)
    is_worse: bool = False
    chart: SafeString | str = ""


DRY_RUNS: list[Callable[[Policy], Effect]] = []
"""Functions that are given a policy as it would be saved, and finish within seconds. Each raises: ValueError with the
reason if it does not.
"""


def effect_of(policy: Policy) -> Effect:
    """The effects of saving `policy` as it is now. A dry run that fails is a sentence, and stops no edit."""
    found = [_effect(dry_run, policy) for dry_run in DRY_RUNS]
    return Effect(
        [line for each in found for line in each.lines],
        any(each.is_worse for each in found),
        next((each.chart for each in found if each.chart), ""),
    )


def _effect(dry_run: Callable[[Policy], Effect], policy: Policy) -> Effect:
    try:
        return dry_run(policy)
    except ValueError as error:
        return Effect([f"its effect on the fleet was not computed, because {error}"])
