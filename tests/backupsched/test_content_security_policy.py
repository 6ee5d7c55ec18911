"""The policy that pages are sent with, in a real browser. That no page breaks it: `test_accessibility.py`."""

import pytest

from tests.fleet import driven_browser
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

browser = driven_browser.browser


def test_a_script_that_was_smuggled_into_a_page_does_not_run(browser):
    browser.look("/")
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
