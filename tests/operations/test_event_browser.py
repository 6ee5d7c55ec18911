"""The pages of events in a real browser: tables of long errors and ids fit, light and dark."""

import os
from pathlib import Path

import pytest

from jobs.models import BacklogRecord
from jobs.states import Status
from tests.schedules.event_records import attempt, delivered, make_event, make_event_schedule, make_trigger, refused
from tests.sources import test_pages
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

Browser = test_pages.Browser
browser = test_pages.browser

WIDE_ID = 8_888_888
"""Of a schedule: the ids of its events are as long as they get."""
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


@pytest.fixture
def event() -> BacklogRecord:
    """One that was refused, with a schedule of a long name and attempts that tell much."""
    schedule = make_event_schedule(pk=WIDE_ID, name="every ten minutes to all shards")
    make_trigger(schedule)
    event = make_event(schedule, 100_000, Status.FAILED, failures=3, last_error=LONG_ERROR)
    for number in (1, 2, 3):
        attempt(event, number, error=LONG_ERROR, status=503, seconds=0.123)
    refused(schedule, 2)
    delivered(schedule, 3)
    return event


def look(browser: test_pages.Browser, path: str, theme: str) -> None:
    """Opens a page in this theme; keeps a screenshot where a person asks for them."""
    browser.run(f"localStorage.setItem('adminTheme', JSON.stringify({theme!r}))")
    browser.look(path)
    is_dark = "return document.documentElement.classList.contains('dark')"
    eventually(lambda: browser.run(is_dark) == (theme == "dark"))
    if directory := os.environ.get("SCREENSHOTS"):
        name = path.strip("/").replace("/", "-")
        browser.picture(Path(directory) / f"{name}-{theme}.png")


def test_ids_and_instants_take_one_line_errors_can_be_read_and_nothing_is_cut_off(
    browser: test_pages.Browser, event: BacklogRecord
) -> None:
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
