"""The load curve of a capacity check, for a terminal and as a picture within a page; and its messages. Pure."""

from collections.abc import Iterable
from datetime import timedelta
from html import escape

from rich.console import Group, RenderableType
from rich.text import Text

from declarations.surfaces.terminal import plain
from schedules.capacity import MINUTES, Capacity
from schedules.capacity_report import PlanMessage, messages

MARKS = {"bad": ("! ", "red"), "warning": ("! ", "yellow"), "good": ("", "green"), "": ("", "")}
BARS = " ▁▂▃▄▅▆▇█"
WIDTH, HEIGHT, BASE = 672, 150, 130
WIDEST_LABEL = 50


def messages_view(found: Iterable[PlanMessage]) -> RenderableType:
    """One line for each message."""
    return Group(*(Text(f"{MARKS[each.level][0]}{plain(each.text)}", style=MARKS[each.level][1]) for each in found))


def capacity_view(found: Capacity) -> RenderableType:
    """The load, one bar for each three hours, and its meaning."""
    columns, top = found.columns(56), max(found.load) or 1.0
    bars = "".join(BARS[max(1, round(value / top * 8))] if value else " " for value in columns)
    since = f"since {found.start.astimezone(found.demand.schedule.period.tzinfo):%a %Y-%m-%d %H:%M %Z}"
    below = Text(f"  {since}, the busiest minute of every 3 hours", style="dim")
    return Group(Text(caption(found), style="bold"), Text(f"  {bars}"), below, Text(""), messages_view(messages(found)))


def caption(found: Capacity) -> str:
    """The busiest minute, and its instant."""
    if not any(found.load):
        return "Load: nothing in these seven days"
    busiest = found.busiest.astimezone(found.demand.schedule.period.tzinfo)
    shared = ", with all that shares its throttle" if found.others else ""
    return f"Load: {max(found.load):,.0f} in the busiest minute ({busiest:%a %H:%M}){shared}"


def picture(found: Capacity) -> str:
    """An `<svg>` element in the page's colours: events a minute, and the pace as a dashed line while in sight."""
    peak, pace = max(found.load) or 1.0, found.pace * 60
    top, schedule, drawn = max(peak, pace) if pace <= 2 * peak else peak, found.demand.schedule, ""
    curve = "".join(f"V{BASE - value / top * (BASE - 20):.1f}h1" for value in found.columns(WIDTH))
    for minute in range(MINUTES - 60):
        day = (found.start + timedelta(minutes=minute)).astimezone(schedule.period.tzinfo)
        if not day.hour and not day.minute:
            x = minute * WIDTH / MINUTES
            place = f'x="{x:.1f}"' if x < WIDTH - WIDEST_LABEL else f'x="{WIDTH}" text-anchor="end"'
            drawn += f'<path d="M{x:.1f} {BASE}V0" stroke="currentColor" stroke-opacity=".15"/>'
            drawn += f'<text {place} y="{HEIGHT - 6}">{day:%a %d %b}</text>'
    if 0 < pace <= top:
        y, limit = BASE - pace / top * (BASE - 20), escape(str(plain(found.limited_by)))
        drawn += f'<path d="M0 {y:.1f}H{WIDTH}" stroke="currentColor" stroke-dasharray="4 3"/>'
        drawn += f'<text x="{WIDTH}" y="{y - 3:.1f}" text-anchor="end">limit of {limit}</text>'
    title = escape(f"Load: {plain(schedule.name)}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" class="w-full" role="img" '
        f'font-size="9" fill="currentColor"><title>{title}</title><text y="9">{caption(found)}</text>'
        f'<path class="text-primary-600" fill="currentColor" d="M0 {BASE}{curve}V{BASE}Z"/>{drawn}</svg>'
    )
