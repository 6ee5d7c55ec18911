"""The chart of the units at work by hour of the day, now and then."""

from typing import Any

from django.template.loader import render_to_string

from simulation.what_if import OutlookComparison

WIDTH, HEIGHT = 720, 160
"""The size in the units of the picture."""


def chart_of(found: OutlookComparison) -> str:
    """The chart as HTML (safe)."""
    top = max(0.1, found.now.peak, found.then.peak)
    context = {
        "bars": _bars(found.now.busy, found.then.busy, top),
        "top": round(top, 1),
        "width": WIDTH,
        "height": HEIGHT,
    }
    return render_to_string("simulation/chart.html", context)


def _bars(now: list[float], then: list[float], top: float) -> list[dict[str, Any]]:
    """Two bars an hour."""
    step = WIDTH / 24
    return [
        {
            "hour": hour, "now": before, "then": after, "width": round(step / 2 - 2, 1),
            "x": round(hour * step + 2, 1), "x_then": round(hour * step + step / 2, 1),
            "y": round(HEIGHT * (1 - before / top), 1), "tall": round(HEIGHT * before / top, 1),
            "y_then": round(HEIGHT * (1 - after / top), 1), "tall_then": round(HEIGHT * after / top, 1),
        }
        for hour, (before, after) in enumerate(zip(now, then, strict=True))
    ]  # fmt: skip
