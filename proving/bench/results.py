"""What was measured: values by part, case and contestant, one a repeat; and what they are beside each other."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

FEWEST_FOR_A_SPREAD = 3


class Key(NamedTuple):
    """`case` says under which circumstances: "1 worker"; `contestant` who."""

    part: str
    case: str
    contestant: str


@dataclass
class Series:
    """Values of one thing, in the order of the repeats."""

    unit: str
    values: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def median(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class Ratio:
    """One series over another, repeat by repeat: what disturbs the machine disturbs both of a repeat."""

    title: str
    values: tuple[float, ...]
    target: str = ""
    """What the project promises, as "≤ 2"; empty: nothing."""

    @property
    def median(self) -> float:
        return median(self.values)


class Results:
    """Filled by the parts."""

    def __init__(self) -> None:
        self.series: dict[Key, Series] = {}
        self.ratios: list[Ratio] = []
        self.failures: list[str] = []
        self.remarks: list[str] = []
        """What the tables have no place for, a paragraph each."""

    def add(self, key: Key, value: float, unit: str, note: str = "") -> None:
        """Take in the value of one more repeat."""
        series = self.series.setdefault(key, Series(unit, note=note))
        series.values.append(value)

    def compare(self, title: str, over: Key, under: Key, target: str = "") -> None:
        """Note the ratio of two series, if both were measured, and what it is promised to be."""
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
    """The value below which `share` (0 to 1) of `values` lie, by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


Say = Callable[[str], None]
