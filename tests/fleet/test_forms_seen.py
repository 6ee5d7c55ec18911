"""The forms of the admin in Chromium: each fits two screens, can be read and used with the keyboard alone, and on a
narrow screen."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.contrib import admin
from django.core.cache import cache
from django.urls import get_resolver
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from sources.models import Policy
from tests.backupsched.axe import AXE, SERIOUS, THEME, WIDER
from tests.backupsched.one_of_each import make_one_of_each
from tests.browsing import chromium, session_of_a_superuser
from tests.factories import make_record
from tests.sources.factories import make_assignment, make_policy, make_source

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]

LEFT_OUT = {"exclude": [["#nav-sidebar"], [".select2-container"]]}
"""The sidebar is that of every page; a choice that select2 draws in a table has no name, which is the theme's."""
SCREEN = {"width": 1300, "height": 900}
MOST = 2 * SCREEN["height"]
FORMS = ("sources.policy", "sources.repository", "schedules.schedule", "delivery.endpoint", "jobs.throttle",
         "jobs.retrypolicy", "alerting.alertroute", "sources.source", "delivery.storedsecret")  # fmt: skip
ADDED = ("sources/repository/add/?type=s3", "sources/source/add/?kind=sftp", "sources/source/add/?kind=postgresql",
         "sources/source/add/?kind=rclone&type=s3", "sources/source/add/?kind=rclone&type=smb")  # fmt: skip


def forms() -> Iterator[str]:
    assert get_resolver().url_patterns  # the pages are known once the addresses are
    for model in admin.site._registry:
        if model._meta.label_lower in FORMS:
            base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
            row = model._default_manager.order_by("-pk").first()
            yield from [f"{base}add/", *([f"{base}{row.pk}/change/"] if row else [])]
    yield from (f"/admin/{each}" for each in ADDED)


def faults(page: Page, path: str) -> list[str]:
    """The faults of a form, a line each: its height, then axe on it unfolded, light and dark, and 800 px wide."""
    page.set_viewport_size(SCREEN)  # type: ignore[arg-type]
    page.goto(path)
    page.wait_for_function("!document.documentElement.hasAttribute('x-cloak')")
    height = page.evaluate("document.documentElement.scrollHeight")
    found = [f"{height} pixels tall"] if height > MOST else []
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    for theme, width in (("light", 1300), ("dark", 800)):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(THEME, theme)
        page.wait_for_function("!document.getAnimations().length")
        found += [f"{theme} {width}: {line}" for line in page.evaluate(SERIOUS, [LEFT_OUT, AXE])]
        if (wide := page.evaluate(WIDER)) > 0:
            found.append(f"{theme} {width}: wider than the screen by {wide} pixels")
        if directory := os.environ.get("SCREENSHOTS"):
            name = "-".join(filter(None, path.replace("?", "/").replace("=", "/").replace("&", "/").split("/")))
            page.screenshot(path=Path(directory) / f"{name}-{theme}-{width}.png", full_page=True)
    return found


def test_each_form_fits_two_screens_and_can_be_read(live_server: LiveServer) -> None:
    make_one_of_each()
    cache.clear()
    only = os.environ.get("ONLY", "")
    paths = [path for path in forms() if only in path]
    with chromium(live_server.url, session_of_a_superuser(), viewport=SCREEN) as page:
        page.add_init_script(Axe().axe_script)
        found = {path: lines for path in paths if (lines := faults(page, path))}
    assert found == {}, "\n".join(f"{path}\n    " + "\n    ".join(lines) for path, lines in found.items())


INLINES = """[...document.querySelectorAll('.formset-wrapper')].map(each =>
  [each.querySelector('table').getBoundingClientRect().width, each.clientWidth])"""


def test_the_list_of_sources_and_the_policies_of_one_fit_beside_the_menu(live_server: LiveServer) -> None:
    now = timezone.now()
    source = make_source(name="demo-refuses-password", kind="postgresql", checked_in_at=now)
    dates = dict.fromkeys(("last_backup_at", "next_backup_at", "proved_at", "held_back_since"), now)
    facts = {"proved_point": "20261121T065755Z", "held_back_why": "it holds 3 MB, and the last ones held 12 GB"}
    make_assignment(make_policy(), source, failures=12, **dates, **facts)
    pages = f"/admin/sources/source/{source.pk}/change/", f"/admin/jobs/backlogrecord/{make_record().pk}/change/"
    with chromium(live_server.url, session_of_a_superuser(), viewport=SCREEN) as page:
        page.goto("/admin/sources/source/")
        expect(page.locator(".field-next_backup")).to_contain_text("UTC)")  # once local time is beside it
        seen, whole = page.evaluate("(table => [table.parentElement.clientWidth, table.scrollWidth])"
                                    "(document.querySelector('.field-name').closest('table'))")  # fmt: skip
        assert whole <= seen
        for path, width in ((path, width) for path in pages for width in (1400, 1024, 390)):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(path)
            page.wait_for_function("!document.documentElement.hasAttribute('x-cloak')")
            if directory := os.environ.get("SCREENSHOTS"):
                page.screenshot(path=Path(directory) / f"inline-{path.split('/')[3]}-{width}.png", full_page=True)
            assert [wide for wide, seen in page.evaluate(INLINES) if wide > seen + 1] == []
            assert page.evaluate(WIDER) <= 0


def test_rows_are_added_and_removed_with_the_keyboard(live_server: LiveServer) -> None:
    policy = make_policy(window=[{"start": "08:00", "end": "12:00"}, {"start": "13:00", "end": "18:00"}])
    with chromium(live_server.url, session_of_a_superuser(), viewport=SCREEN) as page:
        page.goto(f"/admin/sources/policy/{policy.pk}/change/")
        rows = page.locator("[data-parts=window] > [data-row]")
        expect(rows).to_have_count(3)  # with the empty one
        page.get_by_role("button", name="Add range").first.press("Enter")
        expect(rows).to_have_count(4)
        expect(rows.nth(3).get_by_label("days")).to_be_focused()
        for text in ("sat", "Tab", "19:00", "Tab", "20:00"):
            page.keyboard.press(text) if text == "Tab" else page.keyboard.type(text)
        expect(page.locator("#preview")).to_contain_text("19:00")
        rows.nth(0).get_by_role("button").press("Enter")
        expect(rows).to_have_count(3)
        expect(rows.nth(0).get_by_label("days")).to_be_focused()
        page.get_by_role("button", name="Save", exact=True).press("Enter")
        page.wait_for_url("**/admin/sources/policy/")
    saved: list[Any] = Policy.objects.get(pk=policy.pk).window
    assert saved == [{"start": "13:00", "end": "18:00"}, {"days": "sat", "start": "19:00", "end": "20:00"}]
