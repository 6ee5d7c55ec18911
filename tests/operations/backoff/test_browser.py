"""The pictures in a real browser: they change with what is typed, and fit the page, light and dark."""

import pytest

from tests.factories import make_retry_policy
from tests.sources import test_pages
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

Browser = test_pages.Browser
browser = test_pages.browser

PICTURE = "[data-picture] img"


def picture_of(browser: test_pages.Browser) -> str:
    """Which picture is shown, once it is loaded: its address, and what it says to people who do not see it."""
    found = f"[...document.querySelectorAll({PICTURE!r})].find(i => i.complete && i.naturalWidth && i.offsetWidth)"
    return str(browser.run(f"const i = {found}; return i ? decodeURIComponent(i.src) + ' ' + i.alt : ''"))


class TestAPolicyThatIsEdited:
    def test_the_picture_follows_what_is_typed(self, browser: test_pages.Browser) -> None:
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


class TestThePageOfPictures:
    def test_follows_what_is_chosen_and_shows_the_fields_that_belong_to_it(self, browser: test_pages.Browser) -> None:
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
