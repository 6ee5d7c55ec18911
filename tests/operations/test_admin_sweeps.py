"""The admin's page of sweeps: every tier, what waits for it, read-only."""

from datetime import timedelta
from html.parser import HTMLParser

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.clock import database_clock
from jobs.models import Sweep
from jobs.states import Status, WaitingFor
from operations.admin.sweeps import SweepAdmin
from tests.factories import make_record

pytestmark = pytest.mark.django_db
ADDRESS = "/admin/jobs/sweep/"


@pytest.fixture
def registered() -> None:
    assert isinstance(admin.site.get_model_admin(Sweep), SweepAdmin)
    assert reverse("admin:jobs_sweep_changelist") == ADDRESS


def make_waiting(**age: float) -> None:
    now = database_clock()
    inserted_at = now - timedelta(**age)
    values = {"inserted_at": inserted_at, "run_after": inserted_at + timedelta(days=360), "failures": 3}
    make_record(Status.WAITING, waiting_for=WaitingFor.SWEEP, last_failure_at=now - timedelta(days=9), **values)


class Lines(HTMLParser):
    """The cells of each line of a page's tables."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[list[str]] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.lines.append([])
        elif tag == "td":
            self.lines[-1].append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "td"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.lines[-1][-1] += data.strip()


def rows(client: Client) -> list[list[str]]:
    page = client.get(ADDRESS)
    assert page.status_code == 200
    parser = Lines()
    parser.feed(page.content.decode())
    return [line for line in parser.lines if line and line[0].startswith("up to")]


@pytest.mark.usefixtures("registered")
class TestThePageOfSweeps:
    def test_shows_every_tier_also_one_that_was_never_swept(self, admin_client):
        found = rows(admin_client)
        assert len(found) == 6
        assert found[0][:4] == ["up to 1 day old", "5 min", "0", "never"]
        assert found[5][:4] == ["up to 360 days old", "8 d", "0", "never"]

    def test_shows_what_waits_what_the_last_sweep_did_and_when_the_next_one_comes(self, admin_client):
        make_waiting(hours=1)
        make_waiting(days=2)
        swept_at = database_clock() - timedelta(seconds=1)
        Sweep.objects.create(max_age_days=7, swept_at=swept_at, swept=1234, left_some=True)
        day, week, *_ = rows(admin_client)
        assert day[2] == "1"
        assert week[2:4] == ["2", f"{swept_at:%Y-%m-%d %H:%M:%S}"]
        assert week[5:7] == ["1,234", "yes"]
        following = swept_at.replace(minute=0, second=0) + timedelta(hours=1)
        # the hour may end between the two clocks
        assert week[7] in [f"{at:%Y-%m-%d %H:%M:%S}" for at in (following, following + timedelta(hours=1))]

    @pytest.mark.parametrize(("codename", "status"), [("view_sweep", 200), ("view_throttle", 403)])
    def test_is_for_those_who_may_view_it(self, client, codename, status):
        user = User.objects.create_user("a", password="b", is_staff=True)
        user.user_permissions.add(Permission.objects.get(codename=codename))
        client.force_login(user)
        assert client.get(ADDRESS).status_code == status

    def test_asks_no_more_when_more_waits(self, admin_client):
        with CaptureQueriesContext(
            connection,
        ) as few:
            rows(admin_client)
        for hours in range(20):
            make_waiting(hours=hours)
        with CaptureQueriesContext(connection) as many:
            rows(admin_client)
        assert len(many) == len(few)
