"""The picture of a backoff, as SVG or PNG: retries, load and waits, alone or two side by side.

Drawn with matplotlib's figures and canvases. Its *pyplot* keeps figures in a global list, which threads of a web server
would share. Equal input gives equal bytes. One picture is drawn at a time in a process, so that people who ask for
many wait, and do not take all processors.
"""

import io
import textwrap
from collections.abc import Sequence
from threading import Lock

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure, SubFigure

from jobs.durations import span
from operations.backoff import panels, svg
from operations.backoff.figures import describe_calls
from operations.backoff.frames import Frame, frame_of
from operations.backoff.lettering import drawable
from operations.backoff.subjects import Study
from operations.backoff.themes import LIGHT, Theme

matplotlib.rcParams["svg.hashsalt"] = "backoff"  # else ids in the file are random
matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text: small, and read aloud
matplotlib.rcParams["text.parse_math"] = False  # a name with a dollar is no formula

PIXELS_PER_INCH = 144
LETTER = 0.068
"""Inches across, of a letter of the small text, on average."""
LETTER_OF_NAME = 0.16
"""The same, of a wide letter of the name."""

one_at_a_time = Lock()


def draw(
    studies: Sequence[Study],
    form: str = "svg",
    *,
    scale: str = "auto",
    theme: Theme = LIGHT,
    frame: Frame | None = None,
    narrow: bool = False,
) -> bytes:
    """One picture of one or two studies, `svg` or `png`. `frame`: the axes' ends, when other pictures share them.

    `narrow`: high rather than wide, as each of two side by side always is.
    """
    shared = frame or frame_of(studies, scale)
    narrow = narrow or len(studies) > 1
    size = (6.3 * len(studies), 7.6) if narrow else (11.5, 6.2)
    with one_at_a_time:
        figure = Figure(figsize=size, dpi=PIXELS_PER_INCH, facecolor=theme.background)
        parts = figure.subfigures(1, len(studies), squeeze=False, wspace=0)[0]
        for part, study in zip(parts, studies, strict=True):
            part.set_facecolor(theme.background)
            _draw_one(part, study, shared, theme, narrow, size[0] / len(studies))
        return printed(figure, form, title_of(studies), describe(studies))


def printed(figure: Figure, form: str, title: str, description: str) -> bytes:
    """The bytes of a figure, `svg` or `png`."""
    written = io.BytesIO()
    if form == "png":
        metadata = {"Software": None, "Title": description}
        FigureCanvasAgg(figure).print_figure(written, format="png", dpi=PIXELS_PER_INCH, metadata=metadata)
        return written.getvalue()
    FigureCanvasSVG(figure).print_figure(written, format="svg", dpi=PIXELS_PER_INCH)
    return svg.finished(written.getvalue().decode(), title, description).encode()


def title_of(studies: Sequence[Study]) -> str:
    """What a picture shows, in a few words."""
    return f"Backoff: {' beside '.join(study.subject.name for study in studies)}"


def describe(studies: Sequence[Study]) -> str:
    """What is to be seen, for those who do not see it."""
    return " ".join(f"{study.subject.name}: {_sentences(study)}" for study in studies)


def _sentences(study: Study) -> str:
    found, jobs = study.figures, study.series.jobs
    if not study.series.longest:
        return f"{len(jobs):,} jobs fail together. {study.gives_up}"
    return (
        f"{len(jobs):,} jobs fail together, and again at each of up to {study.series.longest:,} retries. Half of them "
        f"are through by {span(found.horizon_seconds)}; the busiest minute has {found.peak_per_minute:,} retries, "
        f"{found.idle_share:.0%} of the minutes have none; waits vary by {found.wait_cv:.2f}. {study.gives_up}"
    )


def _draw_one(part: SubFigure, study: Study, frame: Frame, theme: Theme, narrow: bool, inches: float) -> None:
    rectangles = (
        ((0.105, 0.455, 0.865, 0.375), (0.105, 0.3, 0.865, 0.095), (0.105, 0.05, 0.865, 0.185))
        if narrow
        else ((0.06, 0.355, 0.575, 0.44), (0.06, 0.085, 0.575, 0.195), (0.715, 0.355, 0.265, 0.44))
    )
    dots, load, waits = (part.add_axes(rectangle) for rectangle in rectangles)
    for plot in (dots, load, waits):
        panels.dress(plot, theme)
    labels = 6 if narrow else 9
    panels.retries(dots, study, frame, theme, labels)
    panels.load(load, study, frame, theme, labels)
    panels.mark_giving_up((dots, load), study, frame, theme)
    panels.waits(waits, study, frame, theme, 5 if narrow else 9)
    panels.caption(dots, "One dot per retry, coloured by its number", theme)
    panels.caption(load, f"Retries per minute, {study.figures.peak_per_minute:,} at most", theme)
    panels.caption(waits, "Wait before each retry", theme)
    _write_head(part, study, theme, inches)
    if not narrow:
        _write_figures(part, study, theme)


def _write_head(part: SubFigure, study: Study, theme: Theme, inches: float) -> None:
    left = 0.06 if inches > 8 else 0.105
    name = drawable(study.subject.name)
    widest = int(inches * (0.97 - left) / LETTER_OF_NAME)
    name = name if len(name) <= widest else f"{name[: widest - 1]}…"
    part.text(left, 0.955, name, fontsize=15, fontweight="bold", color=theme.ink, va="center")
    told = f"{study.subject.told}\n{study.gives_up}"
    letters = int(inches * (0.97 - left) / LETTER)
    lines = [line for part_ in told.splitlines() for line in textwrap.wrap(part_, letters)[:2]]
    part.text(left, 0.92, drawable("\n".join(lines)), fontsize=9, color=theme.faint, va="top", linespacing=1.4)


def _write_figures(part: SubFigure, study: Study, theme: Theme) -> None:
    found = study.figures
    rows = (
        ("half of the jobs are through by", span(found.horizon_seconds)),
        ("busiest minute", f"{found.peak_per_minute:,}"),
        ("busiest after the first three retries", f"{found.peak_after_three:,}"),
        ("minutes without a retry", f"{found.idle_share:.1%}"),
        ("variation of waits", f"{found.wait_cv:.2f}"),
        ("calls per job, first hour of an outage", describe_calls(found.calls_per_hour[1])),
        ("calls per job, its 24th hour", describe_calls(found.calls_per_hour[24])),
    )
    for number, (name, value) in enumerate(rows):
        y = 0.275 - number * 0.034
        part.text(0.715, y, name, fontsize=9, color=theme.faint, va="center")
        part.text(0.98, y, value, fontsize=9, color=theme.ink, va="center", ha="right", fontweight="bold")
