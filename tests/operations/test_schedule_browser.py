"""The page of a schedule in a real browser: its plan follows what is typed, and fits the page, light and dark."""

import pytest

from tests.schedules.factories import make_events, make_throttle
from tests.sources import test_pages
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

Browser = test_pages.Browser
browser = test_pages.browser

PICTURE = "[data-picture] svg"


def test_the_plan_follows_what_is_typed(browser: test_pages.Browser) -> None:
    slow = make_throttle(rate=1.0)
    schedule = make_events(name="nightly", throttle=slow, event_count=1000)
    browser.look(f"/admin/schedules/schedule/{schedule.pk}/change/")
    eventually(lambda: "it completes in its window of 1 h" in browser.text_of("#verdict"))
    eventually(lambda: "03:00" in browser.text_of("#triggers"))
    browser.type("id_event_count", "1000000")
    eventually(lambda: "Cannot complete: 1,000,000 events in 1 h" in browser.text_of("#verdict"))
    browser.click("[data-fills='15m']")
    eventually(lambda: browser.value_of("id_window_for") == "15m")
    eventually(lambda: "1,000,000 events in 15 min need 1,112 a second" in browser.text_of("#verdict"))
    browser.click("[data-fills='*/5 * * * *']")
    eventually(lambda: "is longer than the 5 min" in browser.text_of("#verdict"))
    browser.type("id_zone", "Europe/Berlinn")
    eventually(lambda: "did you mean Europe/Berlin?" in browser.text_of("#preview"))
    eventually(lambda: browser.run(f"return document.querySelector({PICTURE!r})") is None)
    assert browser.complaints() == []
