"""The Apprise URLs that may be used. Pure. No text here quotes a URL: it holds tokens.

Apprise knows 200 services. Some run programs, write files, or use this host's desktop or log: so the list names those
that send to users over the network. Each connection checks where they connect to, by the rules of callbacks
(`sending_process.py`).
"""

import re
from urllib.parse import parse_qsl, unquote, urlsplit

WITH_A_HOST = (
    "gotify", "gotifys", "json", "jsons", "mailto", "mailtos", "matrix", "matrixs", "mmost", "mmosts", "ntfy", "ntfys",
    "rocket", "rockets", "signal", "signals",
)  # fmt: skip
"""Schemes that are followed by a host, which may be shown if it has a dot."""
OF_SERVICES = (
    "discord", "gchat", "opsgenie", "pagerduty", "pover", "slack", "tgram", "wxteams", "workflow", "workflows", "zulip",
)  # fmt: skip
SCHEMES = (*WITH_A_HOST, *OF_SERVICES)

LONGEST = 4000
READS_FILES = re.compile(r"template|pgp.*|wkd")
"""Parameters that let Apprise read files on this host, or fetch keys."""


def problem_with(url: str) -> str:
    """The reason why alerts cannot go to `url`; empty if they can, as far as this can be known without a connection."""
    if len(url) > LONGEST or re.search(r"[\x00-\x20\x7f]", url):
        return f"is one line without spaces, of up to {LONGEST} characters"
    scheme, separator, _ = url.partition("://")
    if not separator:
        return "is not a URL of Apprise; one looks like mailtos://user:password@example.com, or ntfys://ntfy.sh/topic"
    if scheme.lower() in ("http", "https"):
        return "begins with json:// or jsons:// where alerts go to a webhook of your own, and not with http"
    if scheme.lower() not in SCHEMES:
        return f"begins with one of {', '.join(f'{each}://' for each in SCHEMES)}"
    try:
        parameters = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    except ValueError:
        return "cannot be read: is there a bracket too many?"
    if found := [name for name in parameters if READS_FILES.fullmatch(name.lower().strip("+-: "))]:
        return f"must not have the parameter {found[0]}: it would read files on this host, or fetch keys"
    return ""


def shown(url: str) -> str:
    """The part of a URL that may be shown, such as `mailtos://example.com/…`."""
    scheme, _, _ = url.partition("://")
    host = _host(url)
    return f"{scheme}://{host}/…" if host else f"{scheme}://…"


def secrets_of(url: str) -> set[str]:
    """The texts that no error may quote, should they come back: the URL, and each part but its host, if that is one."""
    _, _, rest = url.partition("://")
    parts = {rest, *(spelling for part in re.split(r"[/?&=:@,]", rest) for spelling in (part, unquote(part)))}
    return {url, *parts} - {_host(url), ""}


def _host(url: str) -> str:
    """The host, if the URL certainly has one (in ntfy://topic and matrix://token it is a secret); empty if not."""
    scheme, _, _ = url.partition("://")
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    return host if scheme.lower() in WITH_A_HOST and re.search(r"[.:]", host) else ""
