"""The home page, and its facts alone, which a page that is open asks for every few seconds."""

import hashlib
import re
from time import monotonic
from typing import Any

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from dashboard import home as gathering
from dashboard.pages import page, staff

SECONDS = re.compile(r" \d+ s\b")
FRESH_SECONDS, FRESH_TIMES = 5, 50
"""How long, or how many times as long as it took to gather them, the facts serve all pages of people with the same
permissions that are open in this process: with 100,000 sources half a second, so 25 s, and a fiftieth of a core."""


@staff
def home(request: HttpRequest) -> HttpResponse:
    text, etag = _facts(request)
    return page(request, "dashboard/home.html", "Home", facts=mark_safe(text), etag=etag)  # noqa: S308 - a template's


@staff
def home_facts(request: HttpRequest) -> HttpResponse:
    """The facts, or 304 where they are those that the page has."""
    text, etag = cache.get(_key(request)) or _facts(request)
    is_known = request.headers.get("If-None-Match") == etag
    return HttpResponse("" if is_known else text, status=304 if is_known else 200, headers={"ETag": etag})


def _facts(request: HttpRequest) -> tuple[str, str]:
    """What is so now, and its ETag. The page holds no token, so what did not change reads the same, but for the
    seconds until what comes."""
    began = monotonic()
    found: dict[str, Any] = gathering.facts(request)
    text = render_to_string("dashboard/facts.html", found)
    kept = text, f'"{hashlib.sha256(SECONDS.sub("", text).encode()).hexdigest()[:32]}"'
    cache.set(_key(request), kept, max(FRESH_SECONDS, FRESH_TIMES * (monotonic() - began)))
    return kept


def _key(request: HttpRequest) -> str:
    rights = " ".join(sorted(request.user.get_all_permissions()))
    return f"home:{hashlib.sha256(rights.encode()).hexdigest()}"
