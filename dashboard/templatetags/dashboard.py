"""Formats of instants on the pages of the dashboard."""

import re
from datetime import UTC, datetime

from django import template
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

register = template.Library()


@register.filter
def when(instant: datetime | None) -> SafeString | str:
    """An instant to the minute: in UTC, to which the browser adds the viewer's local time (`local_time.js`)."""
    if instant is None:
        return ""
    utc = instant.astimezone(UTC)
    return format_html('<time datetime="{}">{} UTC</time>', f"{utc:%Y-%m-%dT%H:%M:%SZ}", f"{utc:%Y-%m-%d %H:%M}")


MOST_SHOWN = 160
"""Characters of a reason before it is folded."""


@register.filter
def reasons(text: str, about: object) -> SafeString | str:
    """Reasons that are joined by semicolons: the first on one line; unfolded, all of them below it, one a line."""
    first, *others = lines = text.split("; ")
    if not others and len(first) <= MOST_SHOWN:
        return format_html("<span>{}</span>", instants(first))
    head = first if len(first) <= MOST_SHOWN else f"{first[:MOST_SHOWN].rsplit(' ', 1)[0]}…"
    hidden = others if head == first else lines
    items = format_html_join("", "<li>{}</li>", ((instants(line),) for line in hidden))
    html = '<details class="dash-reasons" id="why-{}"><summary>{}</summary><ul>{}</ul></details>'
    return format_html(html, about, instants(head), items)


INSTANT = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d)(:\d\d)? UTC")


@register.filter
def instants(text: str) -> SafeString:
    """A sentence, each instant of which is marked, as by `when`."""
    return mark_safe(INSTANT.sub(r'<time datetime="\1T\2:00Z">\1 \2 UTC</time>', escape(text)))  # noqa: S308 - escaped
