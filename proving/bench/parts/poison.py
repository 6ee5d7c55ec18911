"""10,000 records that can never succeed, next to a stream of good ones: how much longer do the good ones wait?

This runs in virtual time (`virtual.py`), so the machine's speed does not matter and two processes may measure at once.
It takes one preset of each algorithm; *progressive* once more with sweeps that may take a fiftieth of the poison, so
that they warn.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from proving.bench.contestants.virtual import PRESETS
from proving.bench.parts.side_by_side import side_by_side
from proving.bench.results import Key, Ratio
from proving.bench.stage import Stage

PART = "poison"
NO_POISON = "no poison"
TARGET = "≤ 1.10"
EXHAUSTED_SHARE = 50


class Measure(NamedTuple):
    """A field of `proving.bench.fleets.poison.Figures`, as tables name it. `target`: the promise for its ratio.

    `by_policy`: it depends on the retry policy even without any poison.
    """

    field: str
    title: str
    target: str = ""
    by_policy: bool = False


MEASURES = (
    Measure("mean", "wait for the start, mean", TARGET),
    Measure("p99", "wait for the start, p99", TARGET),
    Measure("single", "the trickle's wait, mean"),
    Measure("again", "failed once: until success, mean", by_policy=True),
)


class PoisonCase(NamedTuple):
    preset: str
    max_records: int | None = None

    @property
    def title(self) -> str:
        return self.preset if self.max_records is None else f"{self.preset}, {self.max_records:,} a sweep"


def run(stage: Stage) -> None:
    load = {"poison": stage.options.poison, "batches": stage.options.batches}
    cases = list(cases_of(stage.options.poison))
    calls = [(case.preset, {"load": {**load, "max_records": case.max_records}}) for case in cases]
    for _ in stage.repeats(PART, 1):  # with the same seed the same comes out
        results = list(side_by_side(stage, "meet_poison", dict(zip(cases, calls, strict=True))))
        for measure in MEASURES:
            for case, (without, beside) in results:
                note_down(stage, measure, case, without, beside)


def cases_of(poison: int) -> Iterator[PoisonCase]:
    yield from map(PoisonCase, PRESETS)
    yield PoisonCase("progressive", max(1, poison // EXHAUSTED_SHARE))


def note_down(
    stage: Stage, measure: Measure, case: PoisonCase, without: dict[str, Any], beside: dict[str, Any]
) -> None:
    alone, together = without[measure.field], beside[measure.field]
    usual = Key(PART, measure.title, f"{case.title}, {NO_POISON}" if measure.by_policy else NO_POISON)
    if usual not in stage.results.series:
        stage.results.add(usual, alone, "s")
    stage.results.add(Key(PART, measure.title, case.title), together, "s", note_of(measure, beside))
    if alone:
        title = f"{measure.title}: {case.title} / {NO_POISON}"
        stage.results.ratios.append(Ratio(title, (together / alone,), measure.target))


def note_of(measure: Measure, beside: dict[str, Any]) -> str:
    """The note of a figure: the attempts that the poison took, sweeps that warned, good records never done."""
    if measure.field == "mean":
        warned = f", {beside['left_some']:,} warnings of sweeps" if beside["left_some"] else ""
        return f"{beside['attempts']:,} attempts at poison{warned}"
    if measure.field == "again" and beside["unfinished"]:
        return f"{beside['unfinished']:,} good ones not done at the end"
    return ""
