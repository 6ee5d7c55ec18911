"""Every page, on a screen and on a phone: axe finds no serious fault, nothing makes a page scroll sideways or cuts a
table off, and nothing on it breaks the policy that it is sent with, or lets the browser complain.

axe looks at our own pages light and dark. Those that the admin makes are of a few templates: each in one of the two."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import RequestFactory
from django.urls import get_resolver
from playwright.sync_api import ConsoleMessage, Page
from pytest_django.live_server_helper import LiveServer

from dashboard.pages import FIRST
from tests.backupsched.axe import AXE, SERIOUS, THEME, WIDER
from tests.backupsched.one_of_each import make_one_of_each
from tests.browsing import chromium, session_of_a_superuser
from tests.documents import ROOT
from tests.fleet.driven_browser import CUT_OFF

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.timeout(1800)]

NOWHERE = "/admin/nowhere/"
OTHERS = (
    "/", "/matrix/", "/what-if/", "/docs/", "/api/docs", "/backoff/",
    "/backoff/?algorithm=buckets&compare=phased", "/admin/password_change/", "/admin/jobs/backlogrecord/dead-letters/",
    NOWHERE, "/admin/sources/source/add/",
)  # fmt: skip
OF_A_SOURCE = ("", "enrol/", "revoke/", "delete/", "history/", "restore/")
LOOKS = [("light", 1400), ("dark", 390)]
IS_THOROUGH = bool(os.environ.get("BACKUPSCHED_AXE"))
if IS_THOROUGH:
    LOOKS += [("light", 390), ("dark", 1400)]
SIDEBAR = "#nav-sidebar"
"""The same on every page, and half of it on many; a phone hides it."""


def admin_pages() -> list[str]:
    """Each list, and the page of a row of each; of what has no row the form for a new one, which looks the same."""
    assert get_resolver().url_patterns  # the pages are known once the addresses are
    request: Any = RequestFactory().get("/")
    request.user = User(is_active=True, is_superuser=True)
    found = []
    for model, model_admin in admin.site._registry.items():
        base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        found.append(base)
        if (row := model._default_manager.order_by("-pk").first()) is not None:
            found.append(f"{base}{row.pk}/change/")
        if (row is None or IS_THOROUGH) and model_admin.has_add_permission(request):
            found.append(f"{base}add/")
    return found


def faults(page: Page, path: str, looks: Sequence[tuple[str, int]] = LOOKS) -> list[str]:
    """Serious findings on a page, a line each, in each of `looks`, and complaints of the browser."""
    complaints: list[str] = []

    def complain(entry: ConsoleMessage) -> None:
        if entry.type in ("error", "warning") and (path, "status of 404" in entry.text) != (NOWHERE, True):
            complaints.append(f"{entry.type}: {entry.text}")

    page.on("console", complain)
    page.goto(path)
    page.wait_for_function("!document.documentElement.hasAttribute('x-cloak')")
    if path == "/api/docs":
        page.wait_for_selector("#swagger-ui .opblock-tag-section")
    found = []
    was_wide = page.viewport_size["width"] > 1000  # type: ignore[index]
    for theme, width in sorted(LOOKS, key=lambda look: (look[1] > 1000) != was_wide):  # each page once is resized
        page.set_viewport_size({"width": width, "height": 900})
        lines = []
        if (theme, width) in looks:
            page.evaluate(THEME, theme)
            page.wait_for_function("!document.getAnimations().length")  # colours fade
            lines = found_by_axe(page, path)
        if directory := os.environ.get("SCREENSHOTS"):
            name = "-".join(filter(None, path.replace("?", "/").replace("=", "/").split("/"))) or "home"
            page.screenshot(path=Path(directory) / f"{name}-{theme}-{width}.png", full_page=True)
        if (wide := page.evaluate(WIDER)) > 0:
            lines.append(f"wider than the screen by {wide} pixels")
        if width > 1000 and path != "/matrix/":  # whose days scroll in a box of their own
            lines += [f"cut off: {text}" for text in page.evaluate(CUT_OFF)]
        found += [f"{theme} {width}: {line}" for line in lines]
    page.remove_listener("console", complain)
    return found + complaints


def found_by_axe(page: Page, path: str) -> list[str]:
    shows_sidebar = page.viewport_size["width"] > 1000 and page.locator(SIDEBAR).count()  # type: ignore[index]
    left_out = {"exclude": [[SIDEBAR]]} if shows_sidebar and path not in OTHERS else {}
    return list(page.evaluate(SERIOUS, [left_out, AXE]))


def test_no_page_has_a_serious_fault(live_server: LiveServer, settings: Any, tmp_path: Path) -> None:
    settings.DOCS = tmp_path
    shutil.copy(ROOT / "docs/agent.md", tmp_path / FIRST)  # axe looks at all of a document, and needs 20 s for that one
    values, _ = make_one_of_each()
    cache.clear()
    source = f"/admin/sources/source/{values['source']}/"
    paths = dict.fromkeys([*OTHERS, *(f"{source}{part}" for part in OF_A_SOURCE)], LOOKS)
    for number, path in enumerate(admin_pages()):
        paths.setdefault(path, LOOKS if IS_THOROUGH else [LOOKS[number % 2]])
    with chromium(live_server.url, session_of_a_superuser()) as page:
        page.add_init_script(Axe().axe_script)  # sent once, not for each look
        found = {path: lines for path, looks in paths.items() if (lines := faults(page, path, looks))}
        page.context.clear_cookies()
        found |= {path: lines for path in ["/admin/login/"] if (lines := faults(page, path))}
    assert found == {}, "\n".join(f"{path}\n    " + "\n    ".join(lines) for path, lines in found.items())
