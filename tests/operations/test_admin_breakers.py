"""The breakers in the admin: what they say, and closing and probing them after a question."""

import pytest

from jobs.models import Breaker, Decision
from tests.factories import NOON
from tests.jobs.breaking import CELLAR, MINUTE, breaker, claimed, fail, hold, open_it, tick
from tests.operations.questions import asked, choose, operator

pytestmark = pytest.mark.django_db

LIST = "/admin/jobs/breaker/"


def test_the_list_has_the_open_ones_first_with_the_records_that_wait() -> None:
    fail(claimed(1), guarded=CELLAR)
    open_it()
    hold(3)
    page = operator().get(LIST).content.decode()
    assert page.index("repository office") < page.index("repository cellar")
    assert f'waiting_for__exact=7&amp;breaker__id__exact={breaker().pk}" class="text-link">3</a>' in page
    assert "2026-03-02 12:01:00" in page
    assert "no space left on device" in page


def test_a_page_links_the_record_on_trial_and_what_an_error_quotes_is_no_markup() -> None:
    found = open_it()
    [held] = hold(1)
    tick(NOON + MINUTE)
    Breaker.objects.update(last_error="<script>alert(1)</script>", title="<b>vault</b>")
    page, listed = (operator().get(url).content.decode() for url in (f"{LIST}{found.pk}/change/", LIST))
    assert f"record {held}</a>" in page
    assert "on trial" in page
    assert "<script>alert(1)" not in page + listed
    assert "<b>vault" not in page + listed


def test_closing_asks_first_with_the_number_that_waits() -> None:
    found = open_it()
    hold(2)
    question, page = asked(operator(), LIST, choose("close_now", found))
    assert "repository office: open, waiting for it: 2 records" in question
    assert "Close now: 1 open breaker." in page
    assert not breaker().is_open
    assert "staff 0 closed it" in Decision.objects.get(what="breaker closed").text


@pytest.mark.parametrize(("verb", "is_open"), [("close", False), ("probe", True)])
def test_from_its_page_likewise(verb: str, is_open: bool) -> None:
    found = open_it()
    assert breaker().probe_at == NOON + MINUTE
    asked(operator(), f"{LIST}{found.pk}/{verb}/")
    assert breaker().is_open == is_open
    assert breaker().probe_at != NOON + MINUTE
