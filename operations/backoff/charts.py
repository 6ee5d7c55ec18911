"""The pictures, drawn with matplotlib as SVG or PNG: one study or two side by side. `poster` draws all algorithms.

No *pyplot*: it keeps figures in a global list, which threads of a web server would share. Equal input gives equal
bytes. One picture is drawn at a time in a process: requests for many wait, and do not occupy all processors.
"""

import io
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import count
from statistics import median, quantiles
from threading import Lock
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from declarations.surfaces.terminal import plain
from external.durations import span
from operations.backoff import SIZES
from operations.backoff.study import DAY, HOUR, MINUTE, Study
from operations.backoff.waits import FIGURES, describe, describe_giving_up, title_of

PIXELS_PER_INCH = 144
LETTER, LETTER_OF_NAME = 0.068, 0.16
"""Widths in inches: that of a letter of the small text on average, and that of a wide letter of the name."""

MOST_VECTOR_DOTS = 10_000
"""An SVG holds about 120 bytes for each dot; if there are more dots it holds an image."""
MOST_BOXES = 40
"""The most retries whose waits are drawn as a box each; if there are more, the waits are a band."""

LOG_FROM = 3_000
"""The longest time that a linear axis shows legibly, in multiples of the median first retry."""
SHORTEST = 1.0
"""Seconds: on a log axis, anything shorter is drawn here."""

ROUND = (
    *(n * unit for unit in (1, MINUTE) for n in (1, 2, 5, 10, 15, 30)), *(n * HOUR for n in (1, 2, 3, 6, 12)),
    *(n * DAY for n in (1, 2, 5, 7, 14, 30, 60, 90, 180, 360, 720)), *(3_600 * DAY * 10**n for n in range(9)),
)  # fmt: skip
"""Customary distances between ticks, in seconds, increasing."""
ON_A_LOG_AXIS = (
    0.001, 0.01, 0.1, 1, 3, 10, 30, MINUTE, 3 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 12 * HOUR,
    *(n * DAY for n in (1, 3, 10, 30, 90, 360, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)),
)  # fmt: skip


@dataclass(frozen=True)
class ChartTheme:
    """Colours; those of retries are between two shares of *viridis*, whose order is visible with any
    colour blindness.
    """

    background: str
    ink: str
    faint: str
    grid: str
    accent: str
    first: float
    last: float

    def retries(self, number: int) -> list[Any]:
        shares = (self.first + (self.last - self.first) * n / max(1, number - 1) for n in range(number))
        return [matplotlib.colormaps["viridis"](share) for share in shares]

    @property
    def settings(self) -> Any:
        """Settings of matplotlib. Text stays text, a name with a dollar is not a formula, and ids in the file are not
        random.
        """
        return {
            "svg.hashsalt": "backoff", "svg.fonttype": "none", "text.parse_math": False, "figure.dpi": PIXELS_PER_INCH,
            "figure.facecolor": self.background, "axes.facecolor": self.background, "text.color": self.ink,
            "axes.edgecolor": self.faint, "axes.labelcolor": self.faint, "axes.labelsize": 8.5,
            "axes.spines.top": False, "axes.spines.left": False, "axes.spines.right": False,
            "axes.grid": True, "axes.axisbelow": True, "grid.color": self.grid, "grid.linewidth": 0.7,
            "axes.titlelocation": "left", "axes.titlesize": 9.5, "axes.titleweight": "bold", "axes.titlepad": 7,
            **{f"{axis}tick.{key}": value for axis in "xy" for key, value in
               (("color", self.faint), ("labelsize", 8.5), ("major.size", 0), ("major.pad", 4), ("minor.size", 0))},
        }  # fmt: skip


LIGHT = ChartTheme("#fffffe", "#1f2430", "#5b6270", "#e3e6eb", "#33658a", 0.02, 0.86)
DARK = ChartTheme("#111827", "#e6e8ec", "#9aa1ae", "#2a3344", "#7fb2d9", 0.3, 1.0)
one_at_a_time = Lock()


@dataclass(frozen=True)
class Frame:
    """The ranges of the axes, in seconds, and in retries a minute. Pictures that are compared share it.

    The load reaches to the peak after the first three retries, whose own peak would press down all the rest.
    """

    log: bool
    start: float
    end: float
    load: int
    waits: tuple[float, float] = SHORTEST, SHORTEST


def frame_of(studies: Sequence[Study], scale: str = "auto") -> Frame:
    """The frame that contains all studies, to the last retry or a little further."""
    instants = [at for each in studies for job in each.jobs for at in (*job[:1], *job[-1:])]
    first = min((median(each.waits[0]) for each in studies if each.waits), default=0.0)
    end = max(instants, default=0.0) or float(MINUTE)
    log = scale == "log" or (scale == "auto" and end > LOG_FROM * max(first, 0.001))
    start = max(SHORTEST, min(instants, default=0.0)) if log else 0.0
    load = max(1, *(each.peak_after_three or each.peak for each in studies))
    waits = [max(SHORTEST, wait) for each in studies for waits in each.waits for wait in waits] or [SHORTEST]
    return Frame(log, min(start * 0.8, end / 2), end * (1.3 if log else 1.02), load, (min(waits), max(waits)))


def draw(studies: Sequence[Study], form: str = "svg", *, scale: str = "auto", theme: str = "light") -> bytes:
    """One picture of one or two studies, `svg` or `png`."""
    colours, frame, narrow = DARK if theme == "dark" else LIGHT, frame_of(studies, scale), len(studies) > 1
    width, height = (pixels / 100 for pixels in SIZES[len(studies)])
    with one_at_a_time, matplotlib.rc_context(colours.settings):
        figure = Figure(figsize=(width, height))
        for part, study in zip(figure.subfigures(1, len(studies), squeeze=False, wspace=0)[0], studies, strict=True):
            _draw_one(part, study, frame, colours, narrow, width / len(studies))
        return printed(figure, form, title_of(studies), describe(studies))


def printed(figure: Figure, form: str, title: str, description: str) -> bytes:
    written = io.BytesIO()
    if form == "png":
        figure.savefig(written, format="png", metadata={"Software": None, "Title": description})
        return written.getvalue()
    figure.savefig(written, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    head, rest = written.getvalue().decode().partition("<svg ")[2].split(">", 1)
    title, description = (escape(str(plain(text))) for text in (title, description))
    return f'<svg role="img" {head}><title>{title}</title><desc>{description}</desc>{rest}'.encode()


def _draw_one(part: SubFigure, study: Study, frame: Frame, theme: ChartTheme, narrow: bool, inches: float) -> None:
    left, labels, places = (
        (0.105, 6, ((0.105, 0.455, 0.865, 0.375), (0.105, 0.3, 0.865, 0.095), (0.105, 0.05, 0.865, 0.185)))
        if narrow
        else (0.06, 9, ((0.06, 0.355, 0.575, 0.44), (0.06, 0.085, 0.575, 0.195), (0.715, 0.355, 0.265, 0.44)))
    )
    dots, load, waits = (part.add_axes(place) for place in places)
    draw_retries(dots, load, study, frame, theme, labels)
    _draw_waits(waits, study, frame, theme, 5 if narrow else 9)
    for plot in (dots, load):
        if (last := study.gives_up) and frame.start <= last[1] <= frame.end:
            plot.axvline(last[1], color=theme.ink, linewidth=1, linestyle=(0, (4, 3)))
            _mark(dots, "gives up", last[1], (-4, 3), ha="right", va="bottom")
    dots.set_title("One dot per retry, coloured by its number")
    load.set_title(f"Retries per minute, {study.peak:,} at most")
    waits.set_title("Wait before each retry")
    name, widest = drawable(study.name), int(inches * (0.97 - left) / LETTER_OF_NAME)
    name = name if len(name) <= widest else f"{name[: widest - 1]}…"
    part.text(left, 0.955, name, fontsize=15, fontweight="bold", va="center")
    letters = int(inches * (0.97 - left) / LETTER)
    about = (study.described_rule, describe_giving_up(study.rule))
    lines = [drawable(line) for text in about for line in textwrap.wrap(text, letters)[:2]]
    part.text(left, 0.92, "\n".join(lines), fontsize=9, color=theme.faint, va="top", linespacing=1.4)
    for number, (_, what, figure) in enumerate(() if narrow else FIGURES):
        y = 0.275 - number * 0.034
        part.text(0.715, y, what, fontsize=9, color=theme.faint, va="center")
        part.text(0.98, y, figure(study), fontsize=9, va="center", ha="right", fontweight="bold")


def draw_retries(dots: Axes, load: Axes, study: Study, frame: Frame, theme: ChartTheme, labels: int) -> None:
    """One dot per retry, time across, jobs down; below it the retries per minute, under the same time axis."""
    many = sum(map(len, study.jobs)) > MOST_VECTOR_DOTS
    size = min(4.5, max(1.4, 237 / len(study.jobs)))
    for number, colour in reversed(list(enumerate(theme.retries(len(study.waits))))):
        places = [(max(job[number], frame.start), row) for row, job in enumerate(study.jobs, 1) if len(job) > number]
        dots.plot(*zip(*places, strict=True), "o", color=colour, ms=size, mew=0, rasterized=many, clip_on=False)
    minutes = sorted(study.per_minute.items())
    edges = [max(frame.start, edge) for minute, _ in minutes for edge in (minute * MINUTE, (minute + 1) * MINUTE)]
    counts = [number for _, busy in minutes for number in (busy, 0)]
    load.fill_between(edges, counts, step="post", color=theme.accent, linewidth=0.6, rasterized=many)
    for plot in (dots, load):
        plot.set_xscale("log" if frame.log else "linear")
        plot.set_xlim(frame.start, frame.end)
        _set_ticks(plot.xaxis, ticks(frame.start, frame.end, labels, log=frame.log))
    dots.set_ylim(len(study.jobs) + 0.5, 0.5)
    dots.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    dots.tick_params(labelbottom=False)
    dots.grid(visible=False, axis="y")
    dots.set_ylabel("job")
    load.set_ylim(0, frame.load * 1.12)
    load.yaxis.set_major_locator(MaxNLocator(3, integer=True, steps=[1, 2, 5, 10]))
    load.yaxis.set_major_formatter("{x:,.0f}")
    load.grid(visible=False, axis="x")
    if study.peak > frame.load * 1.12:
        busiest = max(study.per_minute, key=lambda minute: study.per_minute[minute])
        beside = next(minute for minute in count(busiest) if study.per_minute[minute] < frame.load * 0.7)
        _mark(load, f"↑ {study.peak:,}", max(frame.start, beside * MINUTE), (3, -1), ha="left", va="top")


def _mark(plot: Axes, text: str, at: float, offset: tuple[int, int], **alignment: Any) -> None:
    top: Any = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", **alignment}
    plot.annotate(text, (at, 1), xytext=offset, fontsize=8.5, **top)


def _draw_waits(plot: Axes, study: Study, frame: Frame, theme: ChartTheme, labels: int) -> None:
    """Draw the waits before each retry: the median, the middle half as a box, the whole range as a thin line."""
    plot.set_yscale("log")
    numbers = range(1, len(study.waits) + 1)
    spreads = [_spread([max(SHORTEST, wait) for wait in waits]) for waits in study.waits]
    least, lower, middle, upper, most = zip(*spreads, strict=True) if spreads else ([], [], [], [], [])
    low, high = frame.waits[0] / 1.5, frame.waits[1] * 1.5
    plot.set_ylim(low, high)
    _set_ticks(plot.yaxis, ticks(low, high, labels, log=True))
    plot.set_xlim(0.3, max(1, len(spreads)) + 0.7)
    plot.xaxis.set_major_locator(FixedLocator(range(1, 13)) if len(spreads) <= 12 else MaxNLocator(8, integer=True))
    plot.grid(visible=False, axis="x")
    if len(spreads) > MOST_BOXES:
        plot.fill_between(numbers, least, most, color=theme.grid, linewidth=0)
        plot.fill_between(numbers, lower, upper, color=theme.faint, linewidth=0)
        plot.plot(numbers, middle, color=theme.ink, linewidth=1)
        return
    colours = theme.retries(len(spreads))
    plot.vlines(numbers, least, most, color=colours, linewidth=1.2)
    plot.bar(numbers, [b - a for a, b in zip(lower, upper, strict=True)], 0.62, bottom=lower, color=colours)
    plot.hlines(middle, [n - 0.31 for n in numbers], [n + 0.31 for n in numbers], color=colours, linewidth=2.6)
    for number, spread in zip(numbers, spreads, strict=True):
        if spread[3] - spread[1] > spread[2] / 8:
            plot.hlines(spread[2], number - 0.31, number + 0.31, color=theme.background, linewidth=1.2)


def ticks(start: float, end: float, most: int, *, log: bool) -> list[float]:
    """Round instants from `start` to `end` seconds, about `most`, at least one."""
    if log:
        within = [tick for tick in ON_A_LOG_AXIS if start <= tick <= end * 1.001]
        return within[:: max(1, math.ceil(len(within) / most))] or [round(math.sqrt(start * end), 2)]
    step = next(step for step in ROUND if end / step <= most)
    return [step * number for number in range(int(end / step) + 1)]


def _set_ticks(axis: Any, places: Sequence[float]) -> None:
    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FixedFormatter([span(place) for place in places]))
    axis.set_minor_locator(NullLocator())


def _spread(waits: list[float]) -> tuple[float, ...]:
    """Least, quartiles (by linear interpolation) and most."""
    return min(waits), *quantiles(waits if len(waits) > 1 else waits * 2, n=4, method="inclusive"), max(waits)


def drawable(text: str) -> str:
    """`text` with a box for each letter that the font of the pictures lacks."""
    return "".join(letter if ord(letter) in _letters() else "□" for letter in text)


@cache
def _letters() -> frozenset[int]:
    return frozenset(code for code in get_font(findfont(FontProperties())).get_charmap() if code >= ord(" "))
