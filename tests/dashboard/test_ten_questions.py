"""Questions of an operator, answered in a real browser by so many clicks from home; and the page's own updates."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from jobs.states import Status
from sources.models import Assignment, Source
from sources.planning import BACKUPS, KIND, subject_of
from tests.browsing import chromium, session_of_a_superuser, without_scripts
from tests.factories import make_record, make_worker
from tests.sources.factories import backed_up, make_assignment, make_policy, make_source

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

NOW = timezone.now()
HOUR = timedelta(hours=1)

QUESTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "Who is not protected?": ((), "laptop-failing"),
    "Why?": ((), "failures in a row"),
    "Since when?": ((), "failures in a row since"),
    "When is it tried next?": (("text=laptop-failing",), "Its next attempt"),
    "What runs?": ((), "laptop-running · rclone"),
    "What failed last night?": (("text=Open the dead letters",), "permission denied"),
    "Is the store full?": ((), "free of"),
    "Was a restore proved?": ((), "was restored at"),
    "Which machine is in no policy?": (("a:has-text('unprotected')",), "laptop-forgotten"),
    "Pause one.": (("text=laptop-failing", "button[value=pause]"), "paused"),
}
"""Question → what is clicked, from home, and what answers it."""


def make_fleet() -> Source:
    make_worker()
    policy = make_policy()
    policy.repository.room_free, policy.repository.room_total = 10**11, 10**12
    policy.repository.save()
    running = backed_up(policy, NOW - HOUR, source=make_source(name="laptop-running"))
    facts: dict[str, Any] = {"kind": KIND, "queue": BACKUPS}
    make_record(Status.RUNNING, subject=subject_of(running.pk), started_at=NOW, **facts)
    failing = make_assignment(
        policy, make_source(name="laptop-failing"), failures=3, first_failure_at=NOW - HOUR, next_backup_at=NOW
    )
    facts |= {"failures": 3, "last_error": "permission denied", "finished_at": NOW}
    make_record(Status.FAILED, subject=subject_of(failing.pk), **facts)
    make_source(name="laptop-forgotten")
    Assignment.objects.filter(pk=running.pk).update(proved_at=NOW, proved_point="20261122T101500Z")
    return failing.source


def test_ten_questions_are_answered_by_two_clicks_at_most(live_server: LiveServer) -> None:
    failing = make_fleet()
    cache.clear()
    home = f"{live_server.url}/"
    with chromium(live_server.url, session_of_a_superuser(), viewport={"width": 1400, "height": 1000}) as page:
        for question, (clicks, answer) in QUESTIONS.items():
            assert len(clicks) <= 2, question
            if page.url != home:
                page.goto(home)
            for selector in clicks:
                page.locator("#main").locator(selector).first.click()
            expect(page.locator("#main"), question).to_contain_text(answer)
    failing.refresh_from_db()
    assert failing.paused_at is not None


def facts_of(page: Page) -> str:
    return page.locator("#facts").inner_text()


def test_home_refreshes_itself_says_when_it_is_old_and_needs_no_script(live_server: LiveServer) -> None:
    make_fleet()
    cache.clear()
    seen_again = "document.dispatchEvent(new Event('visibilitychange'))"  # as when a person comes back to the tab
    with chromium(live_server.url, session_of_a_superuser()) as page:
        page.goto("/")
        assert "(" in page.locator("#running ~ ul time").first.inner_text()  # the viewer's time, and UTC beside it
        before = facts_of(page)
        with page.expect_response("**/home/facts/") as answered:
            page.evaluate(seen_again)
        assert answered.value.status in (200, 304)
        assert "laptop-failing" in facts_of(page)
        assert before.split("\n")[0] == facts_of(page).split("\n")[0]
        page.route("**/home/facts/", lambda route: route.abort())
        page.evaluate(seen_again)
        expect(page.locator("#stale")).to_be_visible()
        with without_scripts(page) as plain:
            plain.goto("/")
            assert "laptop-failing" in facts_of(plain)
            plain.locator("button[value^='back_up_now']").first.click()
            expect(plain.locator("#main")).to_contain_text("head of the backlog")
