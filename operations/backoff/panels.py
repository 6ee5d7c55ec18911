"""The three panels of a picture, each drawn on axes of its own: the retries, the load, the waits."""

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from operations.backoff import axes
from operations.backoff.frames import SHORTEST, Frame, columns
from operations.backoff.subjects import Study
from operations.backoff.themes import Theme

MOST_VECTOR_DOTS = 20_000
"""An SVG holds about 45 bytes a dot; of more dots it holds an image."""

MOST_BOXES = 40
"""Of more retries the waits are a band, not a box each."""

HEIGHT = 190
"""Points, of the panel of dots: rows of dots are as close as that allows."""

FEW = 12
"""So many retries have their number each."""

SMALL = 8.5
BOX = 0.62


def dress(plot: Axes, theme: Theme) -> None:
    """No box around it, a quiet grid behind it."""
    plot.set_facecolor(theme.background)
    for side, spine in plot.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(theme.faint)
    plot.tick_params(colors=theme.faint, labelsize=SMALL, length=0, pad=4)
    plot.grid(color=theme.grid, linewidth=0.7)
    plot.set_axisbelow(True)


def caption(plot: Axes, text: str, theme: Theme) -> None:
    """What a panel shows, above its left edge."""
    plot.set_title(text, loc="left", fontsize=9.5, color=theme.ink, fontweight="bold", pad=7)


def retries(plot: Axes, study: Study, frame: Frame, theme: Theme, labels: int) -> None:
    """One dot per retry: time across, jobs down, colour by the number of the retry."""
    jobs = study.series.jobs
    _time_across(plot, frame, labels)
    plot.set_ylim(len(jobs) + 0.5, 0.5)
    plot.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    plot.tick_params(labelbottom=False)
    plot.grid(visible=False, axis="y")
    plot.set_ylabel("job", fontsize=SMALL, color=theme.faint)
    size = min(4.5, max(1.4, 1.25 * HEIGHT / len(jobs)))
    dots = sum(map(len, jobs))
    for number, colour in reversed(list(enumerate(theme.retries(study.series.longest)))):
        places = [(max(job[number], frame.start), row) for row, job in enumerate(jobs, 1) if len(job) > number]
        patch = PathPatch(_dots(places, frame), edgecolor=colour, facecolor="none", linewidth=size, capstyle="round")
        patch.set_snap(False)
        patch.set_rasterized(dots > MOST_VECTOR_DOTS)
        plot.add_patch(patch)


def _dots(places: Sequence[tuple[float, float]], frame: Frame) -> Path:
    """A line too short to be seen at each place: with round ends it is a dot, at a quarter of a marker's bytes."""
    nudge = (frame.end - frame.start) * 1e-5
    points = [
        point
        for x, y in places
        for point in ((x, y), (x * 1.00005 if frame.scale == "log" else x + nudge, y))
    ]  # fmt: skip
    return Path(points, [Path.MOVETO, Path.LINETO] * len(places))


def load(plot: Axes, study: Study, frame: Frame, theme: Theme, labels: int) -> None:
    """Retries per minute, under the same time axis; with a mark where the jobs give up."""
    edges, values = columns(study.series.jobs, frame)
    plot.stairs(values, edges, fill=True, color=theme.accent, linewidth=0.6, edgecolor=theme.accent)
    _time_across(plot, frame, labels)
    plot.set_ylim(0, frame.load * 1.12)
    plot.yaxis.set_major_locator(MaxNLocator(3, integer=True, steps=[1, 2, 5, 10]))
    plot.yaxis.set_major_formatter("{x:,.0f}")
    plot.grid(visible=False, axis="x")
    highest = max(values, default=0)
    if highest > frame.load * 1.12:
        beside = next((edge for edge, value in zip(edges, values, strict=False) if value < frame.load * 0.7), edges[0])
        plot.annotate(
            f"↑ {highest:,}", (beside, 1), xycoords=("data", "axes fraction"), xytext=(3, -1),
            textcoords="offset points", ha="left", va="top", fontsize=SMALL, color=theme.ink,
        )  # fmt: skip


def mark_giving_up(plots: Sequence[Axes], study: Study, frame: Frame, theme: Theme) -> None:
    """A line through the panels at the instant at which jobs give up, when they do so within the frame."""
    last = study.figures.gives_up
    if last is None or not frame.start <= last.after <= frame.end:
        return
    for plot in plots:
        plot.axvline(last.after, color=theme.ink, linewidth=1, linestyle=(0, (4, 3)))
    plots[0].annotate(
        "gives up", (last.after, 1), xycoords=("data", "axes fraction"), xytext=(-4, 3), textcoords="offset points",
        ha="right", va="bottom", fontsize=SMALL, color=theme.ink,
    )  # fmt: skip


def waits(plot: Axes, study: Study, frame: Frame, theme: Theme, labels: int) -> None:
    """The waits before each retry: the median, the middle half as a box, all of them as a thin line."""
    spreads = study.figures.spreads
    plot.set_yscale("log")
    low, high = frame.least_wait / 1.5, frame.most_wait * 1.5
    plot.set_ylim(low, high)
    _ticks(plot.yaxis, axes.log_ticks(low, high, labels))
    plot.set_xlim(0.3, max(1, len(spreads)) + 0.7)
    few = len(spreads) <= FEW
    plot.xaxis.set_major_locator(FixedLocator(range(1, FEW + 1)) if few else MaxNLocator(8, integer=True))
    plot.xaxis.set_major_formatter("{x:.0f}")
    plot.grid(visible=False, axis="x")
    numbers = [spread.number for spread in spreads]

    def each(of: Callable[[Any], float]) -> list[float]:
        return [max(SHORTEST, of(spread)) for spread in spreads]

    least, most, middle = each(lambda s: s.least), each(lambda s: s.most), each(lambda s: s.median)
    lower, upper = each(lambda s: s.lower_quartile), each(lambda s: s.upper_quartile)
    if len(spreads) > MOST_BOXES:
        plot.fill_between(numbers, least, most, color=theme.grid, linewidth=0)
        plot.fill_between(numbers, lower, upper, color=theme.faint, linewidth=0)
        plot.plot(numbers, middle, color=theme.ink, linewidth=1)
        return
    colours = theme.retries(len(spreads))
    plot.vlines(numbers, least, most, color=colours, linewidth=1.2)
    heights = [high - low for low, high in zip(lower, upper, strict=True)]
    plot.bar(numbers, heights, BOX, bottom=lower, color=colours)
    ends = [number - BOX / 2 for number in numbers], [number + BOX / 2 for number in numbers]
    plot.hlines(middle, *ends, color=colours, linewidth=2.6)
    boxes = [number for number, height in enumerate(heights) if height > middle[number] / 8]
    for number in boxes:
        plot.hlines(middle[number], ends[0][number], ends[1][number], color=theme.background, linewidth=1.2)


def _time_across(plot: Axes, frame: Frame, labels: int) -> None:
    if frame.scale == "log":
        plot.set_xscale("log")
        _ticks(plot.xaxis, axes.log_ticks(frame.start, frame.end, labels))
    else:
        _ticks(plot.xaxis, axes.linear_ticks(frame.end, labels))
    plot.set_xlim(frame.start, frame.end)


def _ticks(axis: Any, places: Sequence[float]) -> None:
    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FixedFormatter([axes.told(place) for place in places]))
    axis.set_minor_locator(NullLocator())
