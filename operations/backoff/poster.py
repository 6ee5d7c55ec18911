"""The poster of all algorithms, drawn with matplotlib as SVG or PNG."""

from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure, SubFigure

from external.durations import span
from operations.backoff.charts import DARK, LIGHT, Frame, draw_retries, frame_of, one_at_a_time, printed
from operations.backoff.study import Study, at_equal_load

POSTER = "All backoff algorithms"
HEAD, ROW = 0.9, 2.5
"""Inches: the height above the poster's rows, and of a row."""


def draw_all(studies: Sequence[Study], form: str, *, theme: str = "light") -> bytes:
    """The poster: one row for each study, as it is with a separate time axis, and next to it at equal mean load."""
    colours, equal = DARK if theme == "dark" else LIGHT, at_equal_load(studies)
    jobs = len(studies[0].jobs)
    shared = Frame(log=False, start=0, end=frame_of(equal, "linear").end, load=jobs * 3 // 2)  # all at once, and room
    with one_at_a_time, matplotlib.rc_context(colours.settings):
        figure = Figure(figsize=(14, HEAD + ROW * len(studies)))
        ratios = [HEAD, *[ROW] * len(studies)]
        top, *rows = figure.subfigures(len(ratios), 1, height_ratios=ratios, hspace=0, squeeze=False)[:, 0]
        made = f"{jobs:,} jobs that fail together, {studies[0].wanted:,} retries of each at most"
        same = f"At equal mean load: half of the jobs are through by {span(equal[0].horizon)}"
        _write(top, 0.045, 0.72, f"{POSTER}: {made}", 16)
        _write(top, 0.045, 0.2, "As it is, with a separate time axis", 12)
        _write(top, 0.545, 0.2, same, 12)
        for row, own, other in zip(rows, studies, equal, strict=True):
            given = own.described_rule.removeprefix(f"{own.rule.algorithm} · ")
            factor = f"waits × {other.horizon / own.horizon:.2g}"
            halves = ((0.045, own, frame_of([own]), own.name, given), (0.545, other, shared, factor, _load_of(other)))
            for left, study, frame, name, about in halves:
                _write(row, left, 0.93, name, 11)
                row.text(left + 0.43, 0.93, about, fontsize=8, color=colours.faint, va="center", ha="right")
                dots, load = (row.add_axes((left, low, 0.43, high)) for low, high in ((0.36, 0.49), (0.12, 0.2)))
                draw_retries(dots, load, study, frame, colours, 6)
        pairs = zip(studies, equal, strict=True)
        text = " ".join(f"{own.name}: {_load_of(own)}; at equal mean load, {_load_of(other)}." for own, other in pairs)
        return printed(figure, form, POSTER, text)


def _load_of(study: Study) -> str:
    return f"busiest minute {study.peak:,}, {study.idle_share:.0%} of the minutes idle"


def _write(part: SubFigure, left: float, y: float, text: str, size: float) -> None:
    part.text(left, y, text, fontsize=size, fontweight="bold", va="center")
