"""The pages in a real browser, under the policy that they are sent with: nothing on them breaks it."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import RequestFactory

from tests.backupsched.one_of_each import make_one_of_each
from tests.sources import test_pages
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

browser = test_pages.browser


def admin_pages() -> list[str]:
    """Each list, the page of a row of each, and each form for a new one."""
    request: Any = RequestFactory().get("/")
    request.user = User(is_active=True, is_superuser=True)
    found = []
    for model, model_admin in admin.site._registry.items():
        base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        found.append(base)
        if (row := model._default_manager.order_by("-pk").first()) is not None:
            found.append(f"{base}{row.pk}/change/")
        if model_admin.has_add_permission(request):
            found.append(f"{base}add/")
    return found


def complaints_about(browser: test_pages.Browser, path: str) -> list[str]:
    browser.look(path)
    if path == "/api/docs":  # it is drawn by its scripts
        assert browser.text_of("#swagger-ui .opblock-tag-section") == "agent"
    if directory := os.environ.get("SCREENSHOTS"):
        browser.picture(Path(directory) / f"{re.sub('[^a-z0-9]+', '-', path)}.png")
    # less what Chromium advises (DEBUG), and that a page is not there
    return [text for text in browser.complaints() if not text.startswith("DEBUG") and "status of 404" not in text]


@pytest.mark.timeout(900)  # sixty pages, on a busy machine
def test_no_page_breaks_it(browser):
    values, _ = make_one_of_each()
    source = f"/admin/sources/source/{values['source']}"
    others = [
        "/api/docs", "/backoff/", "/backoff/?algorithm=buckets&compare=phased", "/admin/",
        "/admin/password_change/", "/admin/jobs/backlogrecord/dead-letters/", f"{source}/enrol/", f"{source}/delete/",
        f"{source}/history/", "/admin/nowhere/",
    ]  # fmt: skip
    broken = {path: found for path in [*admin_pages(), *others] if (found := complaints_about(browser, path))}
    assert broken == {}
    assert browser.driver.delete(f"{browser.session}/cookie").status_code == 200
    assert complaints_about(browser, "/admin/login/") == []


def test_a_script_that_was_smuggled_into_a_page_does_not_run(browser):
    browser.look("/admin/")
    assert browser.complaints() == []
    browser.run(
        "const smuggled = document.createElement('div'); smuggled.innerHTML = '<img src=x onerror=\"window.ran = 1\">';"
        "const script = document.createElement('script'); script.textContent = 'window.ran = 2';"
        "const far = document.createElement('script'); far.src = 'http://192.0.2.1/x.js';"
        "document.body.append(smuggled, script, far)"
    )
    refused: list[str] = []

    def all_refused() -> bool:
        refused.extend(text for text in browser.complaints() if "Content Security Policy" in text)
        return len(refused) >= 3

    eventually(all_refused)
    assert browser.run("return window.ran ?? null") is None


@pytest.mark.django_db
def test_what_is_no_page_has_it_too(client):
    for path in ("/admin/login/", "/api/me", "/nowhere/"):
        policy = client.get(path).headers["Content-Security-Policy"]
        assert {"default-src 'self'", "object-src 'none'", "frame-ancestors 'none'"} <= set(policy.split("; "))
        assert "script-src 'self' 'unsafe-eval'" in policy
