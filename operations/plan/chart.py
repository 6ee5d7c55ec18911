"""The load curve of a plan as a picture: spread over the window above, all at the trigger below.

The schedule stands in front, and behind it, fainter, all that share its throttle together with it.
"""

import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from threading import Lock
from zoneinfo import ZoneInfo

from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator

from operations.backoff import panels, svg
from operations.backoff.charts import PIXELS_PER_INCH
from operations.backoff.lettering import drawable
from operations.backoff.themes import LIGHT, Theme
from schedules.plan import MINUTES, Curve, Plan
from schedules.plan_sentences import told_load, told_share, who_limits

COLUMN = 15
"""Minutes a column of the picture: its busiest minute. Seven days have 672, about as many as a page has pixels for."""

PACE_IN_SIGHT = 2.0
"""The pace is drawn when it lies below so many times the busiest minute; else it would flatten the curve."""

LEAST_IN_SIGHT = 0.015
"""Of the busiest minute: how high a column of the schedule itself is at least, also beside a thousand times as many."""

_one_at_a_time = Lock()


def inline(plan: Plan) -> str:
    """An `<svg>` element in the page's own colours, light or dark."""
    return svg.themed(draw(plan).decode(), 0)


def draw(plan: Plan, theme: Theme = LIGHT) -> bytes:
    """The picture of a plan as SVG: one panel for a schedule without a window, else two."""
    curves = [("all at the trigger", plan.bunched)]
    if plan.spread:
        curves.insert(0, ("spread over the window", plan.spread))
    with _one_at_a_time:
        figure = Figure(figsize=(11.5, 0.8 + 1.75 * len(curves)), dpi=PIXELS_PER_INCH, facecolor=theme.background)
        plots = figure.subplots(len(curves), 1, squeeze=False)[:, 0]
        height = figure.get_figheight()
        figure.subplots_adjust(left=0.06, right=0.99, top=1 - 0.35 / height, bottom=0.3 / height, hspace=0.45)
        for plot, (name, curve) in zip(plots, curves, strict=True):
            chosen = " (as it is set)" if curve is plan.chosen and len(curves) > 1 else ""
            panels.dress(plot, theme)
            _draw_one(plot, plan, curve, theme)
            panels.caption(plot, drawable(f"{name.capitalize()}{chosen}: {told_load(plan, curve)}"), theme)
        written = io.BytesIO()
        FigureCanvasSVG(figure).print_figure(written, format="svg", dpi=PIXELS_PER_INCH)
    about = " ".join(f"{name.capitalize()}: {told_load(plan, curve)}." for name, curve in curves)
    return svg.finished(written.getvalue().decode(), f"Load: {plan.schedule.name}", about).encode()


def columns(values: Sequence[float]) -> list[float]:
    """The busiest minute of each column, as events a minute."""
    return [max(values[first : first + COLUMN]) for first in range(0, len(values), COLUMN)]


def _draw_one(plot: Axes, plan: Plan, curve: Curve, theme: Theme) -> None:
    both, own = columns(curve.both), columns(curve.own)
    top = max(1.0, curve.peak)
    edges = [number * COLUMN for number in range(len(both) + 1)]
    if share := told_share(curve):
        plot.stairs(both, edges, fill=True, color=theme.grid, linewidth=0.6, edgecolor=theme.faint)
        _label(plot, f"faint: {share}", (0, 1), (3, -3), theme.faint, theme)
    seen = [max(value, LEAST_IN_SIGHT * top) if value else 0 for value in own]
    plot.stairs(seen, edges, fill=True, color=theme.accent, linewidth=0.6, edgecolor=theme.accent)
    pace = plan.verdict.pace * 60 if plan.verdict else 0.0
    if 0 < pace <= PACE_IN_SIGHT * top:
        plot.axhline(pace, color=theme.ink, linewidth=1, linestyle=(0, (4, 3)))
        _label(plot, drawable(f"what {who_limits(plan)} lets through"), (1, pace), (-2, 3), theme.ink, theme)
        top = max(top, pace)
    plot.set_xlim(0, MINUTES)
    plot.set_ylim(0, top * 1.18)
    plot.yaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
    plot.yaxis.set_major_formatter("{x:,.0f}")
    plot.grid(visible=False, axis="y")
    days = midnights(plan.start, plan.schedule.zone)
    plot.xaxis.set_major_locator(FixedLocator([place for place, _ in days]))
    plot.xaxis.set_major_formatter(FixedFormatter([f"{day:%a %d %b}" for _, day in days]))
    for label in plot.get_xticklabels():
        label.set_horizontalalignment("left")


def _label(
    plot: Axes, text: str, at: tuple[float, float], away: tuple[float, float], colour: str, theme: Theme
) -> None:
    """Some words on the background's colour: `at` a share of the width and a height, some points `away` from there."""
    ground = {"facecolor": theme.background, "edgecolor": "none", "pad": 1}
    left, below = away[0] > 0, away[1] < 0
    plot.annotate(
        text, at, xycoords=("axes fraction", "axes fraction" if below else "data"), xytext=away,
        textcoords="offset points", ha="left" if left else "right", va="top" if below else "bottom",
        fontsize=panels.SMALL, color=colour, bbox=ground,
    )  # fmt: skip


def midnights(start: datetime, zone: str) -> list[tuple[float, datetime]]:
    """Where each local day of the seven begins: minutes since `start`, and the day."""
    local = start.astimezone(ZoneInfo(zone))
    found = []
    for number in range(1, 9):
        day = (local + timedelta(days=number)).replace(hour=0, minute=0, second=0, microsecond=0)
        minutes = (day.astimezone(UTC) - start).total_seconds() / 60
        if minutes < MINUTES - 60:
            found.append((minutes, day))
    return found
