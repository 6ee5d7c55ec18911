"""The matrix of sources and days, and the page of one day."""

from datetime import UTC, datetime, time, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from jobs import decisions
from jobs.models import Attempt
from jobs.states import AttemptOutcome, Status
from sources import planning
from sources.models import Assignment
from tests.browsing import chromium, session_of_a_superuser, without_scripts
from tests.factories import make_record
from tests.people import staff
from tests.sources.factories import make_assignment, make_policy, make_source

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def ran(assignment: Assignment, outcome: AttemptOutcome, at: datetime, error: str = "", queue: str = "backups") -> None:
    status = Status.SUCCEEDED if outcome == AttemptOutcome.SUCCEEDED else Status.FAILED
    ended_at = at + timedelta(minutes=1)
    subject = planning.subject_of(assignment.pk)
    record = make_record(status, kind=planning.KIND, subject=subject, finished_at=ended_at)
    Attempt.objects.create(
        record=record, number=1, queue=queue, outcome=outcome, started_at=at, ended_at=ended_at, error=error
    )


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> datetime:
    """Midnight, two days ago: of the test, since the day in which its file was read may be over. None ends in it."""
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)
    return datetime.combine(now.date(), time(0), UTC) - 2 * DAY


@pytest.fixture
def laptop(before: datetime) -> Assignment:
    policy = make_policy(cron="0 0 * * *")
    found = make_assignment(policy, make_source(name="laptop"), inserted_at=before, failures=1)
    ran(found, AttemptOutcome.FAILED, before + timedelta(hours=1), "permission denied")
    ran(found, AttemptOutcome.SUCCEEDED, before + DAY + timedelta(hours=1))
    return found


def names(client: Client, query: str = "") -> list[str]:
    response = client.get(f"/matrix/{query}")
    assert response.status_code == 200
    return [row["source"].name for row in response.context["rows"]]


def test_shows_the_worst_first_and_what_a_filter_asks_for(admin_client: Client, laptop: Assignment) -> None:
    now = timezone.now()
    good = make_source(name="good", kind="s3", address="https://s3.example", path="photos")
    make_assignment(laptop.policy, good, last_backup_at=now, next_backup_at=now + DAY)
    make_source(name="old", retired_at=now)
    make_source(name="lonely")
    assert names(admin_client) == ["laptop", "lonely", "good"]
    assert names(admin_client, "?status=retired") == ["old"]
    assert names(admin_client, "?kind=s3") == ["good"]
    assert names(admin_client, f"?policy={laptop.policy_id}&status=failing") == ["laptop"]
    assert names(admin_client, "?kind=tape&policy=none") == ["laptop", "lonely", "good"]


def test_a_cell_leads_to_what_happened_to_the_attempt(
    admin_client: Client, laptop: Assignment, before: datetime
) -> None:
    text = "its disk is nearly full"
    subject = planning.subject_of(laptop.pk)
    decisions.log("failed", text, kind=planning.KIND, subject=subject, now=before + timedelta(hours=2))
    page = admin_client.get("/matrix/").content.decode()
    [row] = [line for line in page.splitlines() if "laptop" in line and "<td>" in line]
    cells = row.split("<td>")[1:]
    assert len(cells) == 90
    assert [each.partition(" href=")[0] for each in cells[-3:]] == ["<a class=m", "<a class=p", "<a class=o"]
    address = f"/matrix/{laptop.source_id}/{before:%Y%m%d}"
    assert f"href={address.removeprefix('/matrix/')}>!</a>" in cells[-3]
    day = admin_client.get(address).content.decode()
    for expected in ("missed while present", "permission denied", text, "UTC"):
        assert expected in day
    assert "permission denied" not in staff("view_source").get(address).content.decode()
    assert admin_client.get(f"/matrix/{laptop.source_id}/19000101").headers["Location"] == "/matrix/"
    assert admin_client.get(f"/matrix/{laptop.source_id}/tomorrow").headers["Location"] == "/matrix/"
    assert admin_client.get(f"/matrix/0/{before:%Y%m%d}").status_code == 404
    assert staff().get("/matrix/").status_code == 403


def test_a_page_costs_as_much_for_many_sources_as_for_one(
    admin_client: Client, laptop: Assignment, django_assert_max_num_queries
) -> None:
    for _ in range(30):
        make_assignment(laptop.policy, make_source())
    with django_assert_max_num_queries(13):
        assert len(names(admin_client)) == 25
    assert len(names(admin_client, "?page=2")) == 6


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_arrow_keys_go_from_day_to_day_and_without_scripts_a_click_does(
    live_server, laptop: Assignment, before: datetime
) -> None:
    from playwright.sync_api import expect

    first, yesterday = f"/matrix/{laptop.source_id}/", before + DAY
    with chromium(live_server.url, session_of_a_superuser()) as page:
        page.goto("/matrix/")
        page.locator("#matrix td a").first.focus()
        page.keyboard.press("ArrowRight")
        cell = page.locator("#matrix td a:focus")
        expect(cell).to_have_attribute("aria-label", f"laptop, {yesterday:%Y-%m-%d}: protected")
        assert page.locator("#matrix td a:not([tabindex='-1'])").count() == 1
        page.keyboard.press("Enter")
        page.wait_for_url(f"**{first}{yesterday:%Y%m%d}")
        with without_scripts(page) as plain:
            plain.goto("/matrix/")
            plain.locator("#matrix td a").first.click()
            expect(plain.locator("#main")).to_contain_text("missed while present")
