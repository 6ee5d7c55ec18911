"""The breakers, by `manage.py backlog breakers` and in the admin: what they say, closing and probing them."""

import json

import pytest

from jobs.models import Breaker, Decision
from jobs.outcomes import BreakerTarget
from tests.commands import command
from tests.factories import NOON, claim_new
from tests.jobs.breaking import CELLAR, MINUTE, OFFICE, breaker, fail, hold, open_it, tick
from tests.operations.questions import asked, choose, operator

pytestmark = pytest.mark.django_db


run, _ = command("backlog breakers")
close, not_closed = command("backlog close-breaker")


class TestList:
    def test_the_open_ones_come_first_with_their_numbers_and_the_error(self):
        fail(claim_new(1), guarded=CELLAR)
        open_it()
        hold(2)
        lines = [line.split() for line in run().splitlines() if "repository:" in line]
        error = ["no", "space", "left", "on", "device"]
        assert lines[0][:4] == ["repository:3", "repository", "office", "open"]
        assert lines[0][-9:] == ["3", "2", "2026-03-02", "12:01:00", *error]
        assert lines[1] == ["repository:4", "repository", "cellar", "closed", "1", "0", *error]

    def test_what_people_and_engines_wrote_cannot_steer_the_terminal(self):
        open_it(guarded=BreakerTarget("repository:5", "evil \x1b[31mred"))
        Breaker.objects.update(last_error="\x1b[2Jwiped\x1b]0;pwn\x07")
        shown = run()
        assert "wiped" in shown
        assert "\x1b" not in shown

    def test_json_has_the_same_facts(self):
        open_it()
        [held] = hold(1)
        tick(NOON + MINUTE)
        [facts] = json.loads(run("--json"))
        assert (facts["key"], facts["state"], facts["trial"], facts["waiting"]) == (OFFICE.key, "on trial", held, 0)
        assert facts["opened_at"] == "2026-03-02T12:00:00Z"


class TestVerbs:
    def test_close_closes_it(self):
        open_it()
        assert "it is closed" in close(OFFICE.key)
        assert not breaker().is_open
        assert not_closed(OFFICE.key, code=1)

    def test_probe_brings_the_next_trial(self):
        open_it()
        before = breaker().probe_at
        assert json.loads(command("backlog probe-breaker")[0](OFFICE.key, "--json"))["state"] == "open"
        assert breaker().probe_at != before
        assert breaker().is_open

    def test_an_unknown_key_is_refused_with_the_known_ones(self):
        open_it()
        assert "did you mean 'repository:3'?" in not_closed("repository:99")


LIST = "/admin/jobs/breaker/"


def test_the_list_has_the_open_ones_first_with_the_records_that_wait() -> None:
    fail(claim_new(1), guarded=CELLAR)
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
