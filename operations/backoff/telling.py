"""Figures as JSON and as tables for a terminal. Pure, but for the width of the terminal."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from jobs.durations import span
from operations.backlog.rendering import Column, plain, table
from operations.backoff.figures import describe_calls
from operations.backoff.subjects import Study
from operations.backoff.waits import describe_waits

HEADERS = (
    "", "horizon", "peak a minute", "after three", "idle minutes", "variation of waits", "calls in hour 1", "hour 24",
)  # fmt: skip
"""Of the figures: the horizon is the median of the last retry; calls are a job's, in an outage of a day."""


def facts(study: Study) -> dict[str, Any]:
    """The figures, and `retries`: a list a job, of seconds since the common first failure."""
    found = study.figures
    return {
        "horizon_seconds": found.horizon_seconds,
        "peak_per_minute": found.peak_per_minute,
        "idle_share": found.idle_share,
        "wait_cv": found.wait_cv,
        "retries": [list(job) for job in study.series.jobs],
    }


def all_facts(study: Study) -> dict[str, Any]:
    """All figures without the instants."""
    found, kept = study.figures, facts(study)
    del kept["retries"]
    last = found.gives_up
    return kept | {
        "peak_after_three": found.peak_after_three,
        "calls_per_hour": {f"{hour}": calls for hour, calls in found.calls_per_hour.items()},
        "gives_up": {"failures": last.failures, "after_seconds": last.after} if last else None,
    }


def row(study: Study) -> tuple[str, ...]:
    """The cells under HEADERS."""
    found = study.figures
    return (
        study.subject.name,
        span(found.horizon_seconds),
        f"{found.peak_per_minute:,}",
        f"{found.peak_after_three:,}",
        f"{found.idle_share:.1%}",
        f"{found.wait_cv:.3f}",
        describe_calls(found.calls_per_hour[1]),
        describe_calls(found.calls_per_hour[24]),
    )


def view(studies: Sequence[Study], *, waits: bool = True) -> RenderableType:
    """The table of figures, and of each study its waits and when it gives up."""
    first = studies[0].series
    columns = [Column(header, number=number > 0) for number, header in enumerate(HEADERS)]
    head = Text(f"{len(first.jobs):,} jobs that fail together, {first.wanted:,} retries of each at most", style="bold")
    parts: list[RenderableType] = [head, table(columns, map(row, studies))]
    if waits:
        for study in studies:
            rule = study.subject.rule
            name = plain(study.subject.name)
            name.stylize("bold")
            parts += [
                name,
                plain(study.subject.told),
                plain(f"first waits: {describe_waits(rule)}"),
                plain(study.gives_up),
            ]
    return Group(*parts)
