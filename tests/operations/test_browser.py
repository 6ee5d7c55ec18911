"""The pages of the backlog in a real browser: pictures and plans follow what is typed; tables fit, light and dark."""

import os
from pathlib import Path

import pytest

from jobs.models import BacklogRecord
from jobs.states import Status
from tests.factories import make_retry_policy
from tests.fleet import driven_browser
from tests.schedules.event_records import attempt, delivered, make_event, make_event_schedule, make_trigger, refused
from tests.schedules.factories import make_events, make_throttle
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

Browser = driven_browser.Browser
browser = driven_browser.browser

PICTURE = "[data-picture] img"
CURVE = "[data-picture] svg"


def picture_of(browser: driven_browser.Browser) -> str:
    """The picture that is shown, once it is loaded: its address, and its text for users who do not see it."""
    found = f"[...document.querySelectorAll({PICTURE!r})].find(i => i.complete && i.naturalWidth && i.offsetWidth)"
    return str(browser.run(f"const i = {found}; return i ? decodeURIComponent(i.src) + ' ' + i.alt : ''"))


def test_what_is_typed_is_drawn_and_tables_of_long_errors_and_ids_fit(browser: driven_browser.Browser) -> None:
    follow_a_retry_policy(browser)
    follow_the_page_of_pictures(browser)
    follow_a_schedule(browser)
    read_events(browser)


def shown_parameters(browser: driven_browser.Browser) -> list[str]:
    """The names of the parameters whose inputs are shown."""
    shown = "[...document.querySelectorAll('[data-parts=parameters] label')].filter(each => each.offsetParent)"
    return list(browser.run(f"return {shown}.map(each => each.querySelector('span').innerText)"))


def follow_a_retry_policy(browser: driven_browser.Browser) -> None:
    policy = make_retry_policy(name="often", algorithm="constant", parameters={"base": 60})
    browser.look(f"/admin/jobs/retrypolicy/{policy.pk}/change/")
    eventually(lambda: "base=60" in picture_of(browser))
    browser.type("id_parameters-0-base", "90")
    eventually(lambda: "base=90" in picture_of(browser))
    browser.type("id_max_failures", "5")
    eventually(lambda: "gives up at failure 5" in picture_of(browser))
    eventually(lambda: "1 min 30 s" in browser.text_of("#first_waits"))
    assert shown_parameters(browser) == ["base"]
    browser.type("id_algorithm", "phased")
    eventually(lambda: shown_parameters(browser) == ["unit"])
    browser.type("id_parameters-0-unit", "2m")
    eventually(lambda: "unit=120" in picture_of(browser))
    browser.type("id_algorithm", "exponential")
    eventually(lambda: shown_parameters(browser) == ["least", "unit", "jitter"])
    eventually(lambda: "algorithm=exponential" in picture_of(browser))
    assert browser.complaints() == []


def follow_the_page_of_pictures(browser: driven_browser.Browser) -> None:
    browser.look("/backoff/")
    eventually(lambda: "Backoff: fibonacci" in picture_of(browser))
    shown = "return document.getElementById('field_base').offsetParent !== null"
    eventually(lambda: not browser.run(shown))
    browser.type("id_algorithm", "constant")
    eventually(lambda: "Backoff: constant" in picture_of(browser))
    eventually(lambda: browser.run(shown))
    browser.type("id_base", "0")
    eventually(lambda: "must be a positive number of seconds" in browser.text_of("#errors_base"))
    eventually(lambda: "Nothing is drawn" in browser.text_of("#pictures"))
    browser.type("id_base", "30")
    eventually(lambda: "base=30" in picture_of(browser))
    eventually(lambda: browser.text_of("#errors_base") == "")
    assert browser.complaints() == []


def follow_a_schedule(browser: driven_browser.Browser) -> None:
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


WIDE_ID = 8_888_888
"""The id of a schedule whose events have ids as long as they get."""
LONG_ERROR = (
    "https://callbacks.example.com:8443/hooks/shards answered 503: the queue is full and refuses more until 12:45 UTC; "
    "ask its operators about incident 4711"
)
LINES_OF = (
    "const range = document.createRange(); range.selectNodeContents(cell);"
    "return new Set([...range.getClientRects()].filter(box => box.width).map(box => Math.round(box.top))).size"
)
BROKEN = (
    "const lines = cell => {" + LINES_OF + "};"
    "const cells = [...document.querySelectorAll("
    "'.field-subject_in_one_line span, .field-ended span')];"
    "return cells.filter(cell => lines(cell) > 1).map(cell => cell.innerText)"
)
"""Cells of ids and instants that take more than one line."""

CUT_OFF = """
    const hides = element => getComputedStyle(element).overflowX !== 'visible';
    return [...document.querySelectorAll('table td, table th')].filter(cell => {
        const ends = cell.getBoundingClientRect().right;
        for (let box = cell.parentElement; box !== document.body; box = box.parentElement)
            if (hides(box) && ends > box.getBoundingClientRect().right + 1) return true;
        return false;
    }).map(cell => cell.innerText)
"""
"""Cells that end to the right of a box that clips or scrolls them."""


def make_an_event() -> BacklogRecord:
    """One that was refused, with a schedule of a long name and attempts that tell much."""
    schedule = make_event_schedule(pk=WIDE_ID, name="every ten minutes to all shards")
    make_trigger(schedule)
    event = make_event(schedule, 100_000, Status.FAILED, failures=3, last_error=LONG_ERROR)
    for number in (1, 2, 3):
        attempt(event, number, error=LONG_ERROR, status=503, seconds=0.123)
    refused(schedule, 2)
    delivered(schedule, 3)
    return event


def look(browser: driven_browser.Browser, path: str, theme: str) -> None:
    """Opens a page in this theme; keeps a screenshot where a person asks for them."""
    browser.run(f"localStorage.setItem('adminTheme', JSON.stringify({theme!r}))")
    browser.look(path)
    is_dark = "return document.documentElement.classList.contains('dark')"
    eventually(lambda: browser.run(is_dark) == (theme == "dark"))
    if directory := os.environ.get("SCREENSHOTS"):
        name = path.strip("/").replace("/", "-")
        browser.picture(Path(directory) / f"{name}-{theme}.png")


def read_events(browser: driven_browser.Browser) -> None:
    """Ids and instants take one line, errors can be read, and nothing is cut off."""
    event = make_an_event()
    errors = "return [...document.querySelectorAll('.field-shown_error')].map(cell => cell.innerText.trim())"
    for theme in ("light", "dark"):
        look(browser, "/admin/jobs/backlogrecord/?events=yes", theme)
        assert browser.run("return document.querySelectorAll('.field-subject_in_one_line').length") == 3
        assert browser.run(BROKEN) == []
        assert browser.run(CUT_OFF) == []
        look(browser, f"/admin/jobs/backlogrecord/{event.pk}/change/", theme)
        assert [*filter(None, browser.run(errors))] == [LONG_ERROR] * 3
        assert browser.run(CUT_OFF) == []
        assert browser.wider_than_the_page() <= 0
    assert browser.complaints() == []
