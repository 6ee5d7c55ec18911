"""The admin in a real browser: its pages open without complaint, and buttons and preview do what they say."""

import pytest

from sources.models import Policy
from tests.fleet import driven_browser
from tests.fleet.driven_browser import Browser
from tests.sources.factories import make_assignment, make_policy
from tests.waiting import eventually

browser = driven_browser.browser

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def policy() -> Policy:
    window = [{"days": "mon-fri", "start": "22:00", "end": "06:00"}]
    policy = make_policy(cron="0 0 * * *", zone="Europe/Berlin", window=window)
    make_assignment(policy)
    return policy


def test_presets_fill_their_fields_the_preview_follows_and_an_enrolment_code_is_shown_after_a_click(
    browser: Browser, policy: Policy
) -> None:
    browser.look("/admin/sources/policy/add/")
    eventually(lambda: "09:00" in browser.text_of("#preview"))
    browser.click("[data-fills='0 0 * * 1-5']")
    eventually(lambda: browser.value_of("id_cron") == "0 0 * * 1-5")
    browser.click("[title='every night, 22:00 to 06:00']")
    parts = ("days", "start", "end")
    eventually(lambda: [browser.value_of(f"id_window-0-{part}") for part in parts] == ["mon-sun", "22:00", "06:00"])
    eventually(lambda: "22:00" in browser.text_of("#preview") and "2 h" in browser.text_of("#preview"))
    assert browser.complaints() == []
    browser.look(f"/admin/sources/source/{policy.assignments.get().source_id}/enrol/")
    browser.click("#content button[type=submit], form:has(.gap-3) button[type=submit]")
    command = f"python3 backupsched-agent enrol {browser.site}/ "
    eventually(lambda: browser.text_of("#command") == command + browser.text_of("#code") != command)
    assert browser.complaints() == []
