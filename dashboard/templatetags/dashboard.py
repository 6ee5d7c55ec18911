"""How pages of the dashboard write instants."""

import re
from datetime import UTC, datetime

from django import template
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()


@register.filter
def when(instant: datetime | None) -> SafeString | str:
    """An instant to the minute: in UTC, to which the browser adds the viewer's local time (`local_time.js`)."""
    if instant is None:
        return ""
    utc = instant.astimezone(UTC)
    return format_html('<time datetime="{}">{} UTC</time>', f"{utc:%Y-%m-%dT%H:%M:%SZ}", f"{utc:%Y-%m-%d %H:%M}")


INSTANT = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d)(:\d\d)? UTC")


@register.filter
def instants(text: str) -> SafeString:
    """A sentence, each instant of which is marked, as by `when`."""
    return mark_safe(INSTANT.sub(r'<time datetime="\1T\2:00Z">\1 \2 UTC</time>', escape(text)))  # noqa: S308 - escaped
