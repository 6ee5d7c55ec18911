"""Tables for readers, JSON for programs."""

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from proving.bench.results import FEWEST_FOR_A_SPREAD, Key, Results, Series

BUSY = 0.25
"""Load per processor, before the measurements, above which figures should not be quoted."""


def as_json(facts: dict[str, object], results: Results) -> dict[str, Any]:
    return {
        "machine": facts,
        "measured": [
            {**key._asdict(), "unit": series.unit, "values": series.values, "note": series.note}
            for key, series in results.series.items()
        ],
        "ratios": [{**asdict(ratio), "median": ratio.median} for ratio in results.ratios],
        "failures": results.failures,
        "remarks": results.remarks,
    }


def show(console: Console, facts: dict[str, Any], results: Results) -> None:
    processors, load = facts["processors"], facts["load"]
    console.print(f"commit {facts['commit']}, Python {facts['python']}, {processors} processors, load {load} before")
    if load > processors * BUSY:
        console.print("the machine was busy: rates are too low, and only the ratios are meaningful", style="yellow")
    console.print("PostgreSQL " + ", ".join(f"{name}={value}" for name, value in facts["postgresql"].items()))
    console.print(", ".join(f"{name} {version or 'missing'}" for name, version in facts["versions"].items()))
    for part, series in results.parts().items():
        table = Table("case", "contestant", "median", "min – max", "unit", "", title=part, title_justify="left")
        previous = ""
        for key, measured in by_case(series):
            if previous and key.case != previous:
                table.add_section()
            table.add_row(
                key.case if key.case != previous else "",
                key.contestant,
                number(measured.median),
                spread(measured.values),
                measured.unit,
                measured.note,
            )
            previous = key.case
        console.print(table)
    if results.ratios:
        table = Table("ratio", "median", "min – max", "target", title="side by side", title_justify="left")
        for ratio in results.ratios:
            table.add_row(ratio.title, f"{ratio.median:.2f}", spread(ratio.values, places=2), ratio.target)
        console.print(table)
        if any(len(ratio.values) < FEWEST_FOR_A_SPREAD for ratio in results.ratios):
            console.print(f"fewer than {FEWEST_FOR_A_SPREAD} repeats: the spread means little")
    for remark in results.remarks:
        console.print(remark, markup=False, highlight=False)
    for failure in results.failures:
        console.print(f"FAILED: {failure}", style="bold red", markup=False)


def by_case(series: dict[Key, Series]) -> list[tuple[Key, Series]]:
    """Sort the series into the order in which their cases first came."""
    cases = list(dict.fromkeys(key.case for key in series))
    return sorted(series.items(), key=lambda item: cases.index(item[0].case))


def number(value: float) -> str:
    """The value as text: whole from a hundred on, otherwise with two places."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.2f}"


def spread(values: "list[float] | tuple[float, ...]", places: int | None = None) -> str:
    low, high = min(values), max(values)
    if places is not None:
        return f"{low:.{places}f} – {high:.{places}f}"
    return f"{number(low)} – {number(high)}"
