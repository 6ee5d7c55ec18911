"""What a form comes to, in a real browser: pictures and plans change with what is typed."""

import pytest

from tests.factories import make_retry_policy
from tests.schedules.factories import make_events, make_throttle
from tests.sources import test_pages
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

Browser = test_pages.Browser
browser = test_pages.browser

PICTURE = "[data-picture] img"
CURVE = "[data-picture] svg"


def picture_of(browser: test_pages.Browser) -> str:
    """Which picture is shown, once it is loaded: its address, and what it says to people who do not see it."""
    found = f"[...document.querySelectorAll({PICTURE!r})].find(i => i.complete && i.naturalWidth && i.offsetWidth)"
    return str(browser.run(f"const i = {found}; return i ? decodeURIComponent(i.src) + ' ' + i.alt : ''"))


def test_what_is_typed_is_drawn(browser: test_pages.Browser) -> None:
    follow_a_retry_policy(browser)
    follow_the_page_of_pictures(browser)
    follow_a_schedule(browser)


def follow_a_retry_policy(browser: test_pages.Browser) -> None:
    policy = make_retry_policy(name="often", algorithm="constant", parameters={"base": 60})
    browser.look(f"/admin/jobs/retrypolicy/{policy.pk}/change/")
    eventually(lambda: "base=60" in picture_of(browser))
    browser.type("id_parameters", '{"base": 90}')
    eventually(lambda: "base=90" in picture_of(browser))
    browser.type("id_max_failures", "5")
    eventually(lambda: "gives up at failure 5" in picture_of(browser))
    eventually(lambda: "1 min 30 s" in browser.text_of("#first_waits"))
    browser.click("[data-words=phased]")
    eventually(lambda: browser.value_of("id_algorithm") == "phased")
    eventually(lambda: browser.value_of("id_parameters") == '{"unit": 1}')
    eventually(lambda: "unit=1" in picture_of(browser))
    assert browser.complaints() == []


def follow_the_page_of_pictures(browser: test_pages.Browser) -> None:
    browser.look("/backoff/")
    eventually(lambda: "Backoff: fibonacci" in picture_of(browser))
    shown = "return document.getElementById('field_base').offsetParent !== null"
    eventually(lambda: not browser.run(shown))
    browser.type("id_algorithm", "constant")
    eventually(lambda: "Backoff: constant" in picture_of(browser))
    eventually(lambda: browser.run(shown))
    browser.type("id_base", "0")
    eventually(lambda: "greater than or equal to" in browser.text_of("#errors_base"))
    eventually(lambda: "Nothing is drawn" in browser.text_of("#pictures"))
    browser.type("id_base", "30")
    eventually(lambda: "base=30" in picture_of(browser))
    eventually(lambda: browser.text_of("#errors_base") == "")
    assert browser.complaints() == []


def follow_a_schedule(browser: test_pages.Browser) -> None:
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
    eventually(lambda: browser.run(f"return document.querySelector({CURVE!r})") is None)
    assert browser.complaints() == []
