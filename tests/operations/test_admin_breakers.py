"""The breakers in the admin: what they say, and closing and probing them, with the permission and after a question."""

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from jobs.models import Breaker, Decision
from tests.factories import NOON
from tests.jobs.breaking import CELLAR, MINUTE, breaker, claimed, fail, hold, open_it, tick
from tests.operations.test_admin_backlog import choose, hidden_fields

pytestmark = pytest.mark.django_db

LIST = "/admin/jobs/breaker/"


def sign_in(client: Client, *codenames: str) -> Client:
    user = User.objects.create_user("ann", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client.force_login(user)
    return client


@pytest.fixture
def operator(client: Client) -> Client:
    return sign_in(client, "view_backlogrecord", "change_backlogrecord")


@pytest.fixture
def onlooker(client: Client) -> Client:
    return sign_in(client, "view_backlogrecord")


def page_of(found: Breaker, verb: str = "change") -> str:
    return f"{LIST}{found.pk}/{verb}/"


class TestWhatIsShown:
    def test_the_list_has_the_open_ones_first_with_who_waits(self, onlooker: Client) -> None:
        fail(claimed(1), guarded=CELLAR)
        open_it()
        hold(3)
        page = onlooker.get(LIST).content.decode()
        assert page.index("repository office") < page.index("repository cellar")
        assert f'waiting_for__exact=7&amp;breaker__id__exact={breaker().pk}" class="text-link">3</a>' in page
        assert "2026-03-02 12:01:00" in page
        assert "no space left on device" in page

    def test_a_page_links_the_record_on_trial(self, onlooker: Client) -> None:
        found = open_it()
        [held] = hold(1)
        tick(NOON + MINUTE)
        page = onlooker.get(page_of(found)).content.decode()
        assert f"record {held}</a>" in page
        assert "on trial" in page

    def test_what_an_error_quotes_is_no_markup(self, onlooker: Client) -> None:
        found = open_it()
        Breaker.objects.update(last_error="<script>alert(1)</script>", title="<b>vault</b>")
        for url in (LIST, page_of(found)):
            page = onlooker.get(url).content.decode()
            assert "<script>alert(1)" not in page
            assert "<b>vault" not in page


class TestClosingAndProbing:
    def test_closing_asks_first_with_the_number_that_waits(self, operator: Client) -> None:
        found = open_it()
        hold(2)
        question = operator.post(LIST, choose("close_now", found)).content.decode()
        assert "repository office: open, 2 records wait for it" in question
        assert breaker().is_open
        page = operator.post(LIST, hidden_fields(question), follow=True).content.decode()
        assert "Close now: 1 open breaker." in page
        assert not breaker().is_open
        assert "ann closed it" in Decision.objects.get(what="breaker closed").text

    @pytest.mark.parametrize(("verb", "is_open"), [("close", False), ("probe", True)])
    def test_from_its_page_likewise(self, verb: str, is_open: bool, operator: Client) -> None:
        found = open_it()
        assert 'name="confirmed"' in operator.get(page_of(found, verb)).content.decode()
        assert breaker().probe_at == NOON + MINUTE
        operator.post(page_of(found, verb), {"confirmed": "yes"})
        assert breaker().is_open == is_open
        assert breaker().probe_at != NOON + MINUTE

    @pytest.mark.parametrize("verb", ["close", "probe"])
    @pytest.mark.parametrize(
        "object_id",
        [
            "99",
            "9" * 30,
        ],
    )
    def test_one_that_is_not_there_is_told(self, verb: str, object_id: str, operator: Client) -> None:
        page = operator.get(f"{LIST}{object_id}/{verb}/", follow=True).content.decode()
        assert f"There is no breaker {object_id}." in page
