"""The result of a check of a repository's files."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from storage.points.damage import Damage


@dataclass
class CheckResult:
    """The result of a run and the position where the next one begins: `part` and `after` are both empty if it begins a
    new round. `total`: bytes of the round.

    `damaged`: all known damage, also from earlier runs. `mended`: paths. `digests`: point → the digest of its manifest,
    which this run has written again. `not_filled`: the first point whose manifest could not be, and why. `is_stopped`:
    True if the run was stopped in the middle.
    """

    part: str
    after: str
    total: int
    files: int = 0
    size: int = 0
    filled: int = 0
    damaged: list[Damage] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    not_filled: str = ""
    is_stopped: bool = False

    def stop(self, known: Sequence[Damage]) -> None:
        """Keep what is `known` from earlier runs and was not examined in this one."""
        self.is_stopped = True
        examined = {(each.place, each.path) for each in self.damaged}
        left = (each for each in known if (each.place, each.path) not in examined and each.path not in self.mended)
        self.damaged = [*left, *self.damaged]
