"""The results: values by part, case and contestant, one a repeat; and ratios between them."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

FEWEST_FOR_A_SPREAD = 3


class Key(NamedTuple):
    """`case` names the circumstances, such as "1 worker"."""

    part: str
    case: str
    contestant: str


@dataclass
class Series:
    """The values of one key, in the order of the repeats."""

    unit: str
    values: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def median(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class Ratio:
    """One series over another, repeat by repeat, since a disturbance of the machine affects both of a repeat."""

    title: str
    values: tuple[float, ...]
    target: str = ""
    """The project's promise, such as "≤ 2", or empty if there is none."""

    @property
    def median(self) -> float:
        return median(self.values)


class Results:
    """The results of a run, filled by the parts."""

    def __init__(self) -> None:
        self.series: dict[Key, Series] = {}
        self.ratios: list[Ratio] = []
        self.failures: list[str] = []
        self.remarks: list[str] = []
        """Remarks that do not fit in the tables, a paragraph each."""

    def add(self, key: Key, value: float, unit: str, note: str = "") -> None:
        """Add the value of one more repeat."""
        series = self.series.setdefault(key, Series(unit, note=note))
        series.values.append(value)

    def compare(self, title: str, over: Key, under: Key, target: str = "") -> None:
        """Add the ratio of two series, if both were measured, and its promised value."""
        pairs = zip(*(self.series[key].values if key in self.series else () for key in (over, under)), strict=False)
        if values := tuple(above / below for above, below in pairs if below):
            self.ratios.append(Ratio(title, values, target))

    def parts(self) -> dict[str, dict[Key, Series]]:
        """The series by part, in the order in which they were measured."""
        found: dict[str, dict[Key, Series]] = defaultdict(dict)
        for key, series in self.series.items():
            found[key.part][key] = series
        return found


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a `share` (0 to 1) of `values` is, by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


Say = Callable[[str], None]
