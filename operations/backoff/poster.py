"""One picture of all algorithms: each as it is, and beside that at equal mean load, where only the shape differs.

The mean load of a study is its retries over its horizon. Parameters and cap are scaled so that the horizon, the median
instant of the last retry, is the one of the sweeps, which cannot be scaled.
"""

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.figure import Figure, SubFigure

from jobs.durations import span
from operations.backoff import panels
from operations.backoff.charts import PIXELS_PER_INCH, one_at_a_time, printed
from operations.backoff.frames import Frame, frame_of
from operations.backoff.subjects import Study, scaled, study
from operations.backoff.themes import LIGHT, Theme

WIDTH, HEAD, ROW = 14.0, 0.9, 2.5
"""Inches: of the poster, of what stands above its rows, and of a row."""

TITLE = "All backoff algorithms"
LABELS = 6


def at_equal_load(studies: Sequence[Study], seed: int = 0) -> list[Study]:
    """The same algorithms, each with the horizon of the one that waits for sweeps."""
    horizon = next(each.figures.horizon_seconds for each in studies if each.subject.rule.waits_for_sweeps)
    return [
        study(
            scaled(each.subject, horizon / each.figures.horizon_seconds),
            jobs=len(each.series.jobs),
            retries=each.series.wanted,
            seed=seed,
        )
        for each in studies
    ]


def draw(studies: Sequence[Study], form: str, *, seed: int = 0, theme: Theme = LIGHT) -> bytes:
    """The poster, `svg` or `png`: a row for each study, its own time axis on the left, a shared one on the right."""
    equal = at_equal_load(studies, seed)
    shared = replace(frame_of(equal, "linear"), load=len(studies[0].series.jobs) * 3 // 2)  # room above all at once
    first = studies[0].series
    height = HEAD + ROW * len(studies)
    with one_at_a_time:
        figure = Figure(figsize=(WIDTH, height), dpi=PIXELS_PER_INCH, facecolor=theme.background)
        ratios = [HEAD, *[ROW] * len(studies)]
        top, *rows = figure.subfigures(len(ratios), 1, height_ratios=ratios, hspace=0, squeeze=False)[:, 0]
        made = f"{len(first.jobs):,} jobs that fail together, {first.wanted:,} retries of each at most"
        _write(top, 0.045, 0.72, f"{TITLE}: {made}", theme, size=16)
        _write(top, 0.045, 0.2, "As it is, with a time axis of its own", theme, size=12)
        told = span(equal[0].figures.horizon_seconds)
        _write(top, 0.545, 0.2, f"At equal mean load: half of the jobs are through by {told}", theme, size=12)
        for row, own, other in zip(rows, studies, equal, strict=True):
            row.set_facecolor(theme.background)
            factor = other.figures.horizon_seconds / own.figures.horizon_seconds
            given = own.subject.told.removeprefix(f"{own.subject.rule.algorithm} · ")
            _draw(row, 0.045, own, frame_of([own]), theme, own.subject.name, given)
            _draw(row, 0.545, other, shared, theme, f"waits × {factor:.2g}", _told(other))
        return printed(figure, form, TITLE, describe(studies, equal))


def describe(studies: Sequence[Study], equal: Sequence[Study]) -> str:
    """What is to be seen, for those who do not see it."""
    rows = zip(studies, equal, strict=True)
    return " ".join(f"{own.subject.name}: {_told(own)}; at equal mean load, {_told(other)}." for own, other in rows)


def _told(study: Study) -> str:
    found = study.figures
    return f"busiest minute {found.peak_per_minute:,}, {found.idle_share:.0%} of the minutes idle"


def _write(part: SubFigure, left: float, y: float, text: str, theme: Theme, *, size: float) -> None:
    part.set_facecolor(theme.background)
    part.text(left, y, text, fontsize=size, fontweight="bold", color=theme.ink, va="center")


def _draw(row: SubFigure, left: float, study: Study, frame: Frame, theme: Theme, name: str, told: str) -> None:
    """The retries above the load, under a name and what is to be known of it."""
    _write(row, left, 0.93, name, theme, size=11)
    row.text(left + 0.43, 0.93, told, fontsize=8, color=theme.faint, va="center", ha="right")
    dots, load = (row.add_axes((left, bottom, 0.43, height)) for bottom, height in ((0.36, 0.49), (0.12, 0.2)))
    for plot in (dots, load):
        panels.dress(plot, theme)
    panels.retries(dots, study, frame, theme, LABELS)
    panels.load(load, study, frame, theme, LABELS)
