"""Chromium by playwright, signed in as a superuser. No test may ask the database while it runs: playwright has an event
loop in the same thread, where Django would open another connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from tests.programs import needed
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Page


MILLISECONDS = 1000 * PATIENCE
"""Seconds for anything that the browser does; its own patience is half of that."""


def session_of_a_superuser() -> str:
    client = Client()
    client.force_login(User.objects.create_superuser("browser"))
    return str(client.cookies[settings.SESSION_COOKIE_NAME].value)


@contextmanager
def chromium(site: str, session: str, **context: Any) -> Iterator[Page]:
    """A page of it, in Berlin. `context`: what else playwright's `new_context` takes."""
    from playwright.sync_api import expect, sync_playwright  # which `make test` does not install

    expect.set_options(timeout=MILLISECONDS)
    program = needed("chromium", "chromium")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=program, args=arguments, timeout=MILLISECONDS)
        opened = browser.new_context(timezone_id="Europe/Berlin", base_url=site, **context)
        opened.set_default_timeout(MILLISECONDS)
        opened.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": site}])
        yield opened.new_page()
        browser.close()


@contextmanager
def without_scripts(page: Page) -> Iterator[Page]:
    """Another page of the same browser and person, on which no script runs."""
    browser, site = page.context.browser, page.url.split("/", 3)[:3]
    assert browser
    opened = browser.new_context(
        base_url="/".join(site), storage_state=page.context.storage_state(), java_script_enabled=False
    )
    opened.set_default_timeout(MILLISECONDS)
    yield opened.new_page()
