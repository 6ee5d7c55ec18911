"""The home page on sources that need an operator, and the buttons that mend them."""

import html
import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from alerting import raising
from dashboard.needs import of_sources
from jobs.models import BacklogRecord, Hold
from jobs.states import Status, WaitingFor
from sources.models import Assignment, CheckRound, Policy
from sources.planning import BACK_UP_NOW_PRIORITY, BACKUPS, KIND, subject_of
from tests.dashboard import home_pages
from tests.dashboard.home_pages import ACT, FACTS, HOUR, NOW, text_of, well
from tests.factories import make_record
from tests.people import staff
from tests.sources.factories import backed_up, make_assignment, make_policy, make_source, record_of

_forget, policy = home_pages._forget, home_pages.policy

pytestmark = pytest.mark.django_db


def test_names_who_needs_a_person_and_a_button_backs_it_up(admin_client, policy):
    assert admin_client.get("/admin/").headers["Location"] == "/"
    well(policy)
    in_need = make_assignment(policy, make_source(name="laptop-anna"))
    page = text_of(admin_client)
    assert "1 of 2 protected · 1 need" in page
    assert f'value="back_up_now:{in_need.source_id}"' in page
    answer = admin_client.post(ACT, {"do": f"back_up_now:{in_need.source_id}"})
    assert answer.headers["Location"] == "/"
    assert record_of(in_need).priority == BACK_UP_NOW_PRIORITY


def test_a_first_copy_that_runs_is_named_and_no_button_asks_for_it(admin_client, policy):
    in_need = make_assignment(policy)
    of_it = {"kind": KIND, "subject": subject_of(in_need.pk), "started_at": NOW}
    make_record(Status.RUNNING, queue=BACKUPS, exclusive_key=in_need.source.exclusive_key, **of_it)
    page = text_of(admin_client)
    assert "Its first backup has been running since" in page
    assert "back_up_now:" not in page


def test_the_chips_add_up_to_the_numbers_of_the_sentence(admin_client, policy):
    """Running and due sources count as protected in the sentence, and had a chip next to that of the protected."""
    sources = [well(policy) for _ in range(3)]
    Assignment.objects.filter(pk=sources[0].pk).update(next_backup_at=NOW - HOUR)
    make_record(Status.RUNNING, kind=KIND, queue=BACKUPS, subject=subject_of(sources[1].pk), started_at=NOW)
    make_assignment(policy)
    groups = {words: (total, chips) for words, total, chips in needs_groups(admin_client)}
    page = text_of(admin_client)
    assert "3 of 4 protected · 1 need" in page
    assert (groups["protected"][0], groups["need you"][0]) == (3, 1)
    assert all(total == sum(count for *_, count in chips) for total, chips in groups.values())
    assert [called for _, called, _, _ in groups["protected"][1]] == ["due", "running", "up to date"]
    for words, (total, _) in groups.items():
        assert f"<span>{total} {words}:</span>" in page


def needs_groups(client: Client) -> Any:
    request = client.get("/").wsgi_request
    return of_sources(request, timezone.now())["groups"]


def test_a_reason_is_one_line_and_its_details_are_folded(admin_client, policy):
    assignment = make_assignment(policy, failures=3, first_failure_at=NOW - HOUR)
    error = f"login refused {'by <host> ' * 30}"
    record = make_record(Status.WAITING, kind=KIND, subject=subject_of(assignment.pk), failures=3, last_error=error,
                         waiting_for=WaitingFor.BACKOFF, run_after=NOW + HOUR)  # fmt: skip
    page = text_of(admin_client)
    [shown] = re.findall(r'<details class="dash-reasons" id="why-\d+"><summary>(.*?)</summary><ul>(.*?)</ul>', page)
    assert shown[0].startswith("3 failures in a row since")
    assert shown[0].endswith("…")
    assert shown[1].count("<li>") == 2, record
    assert "it is not tried again before" in shown[1]
    assert "<host>" not in page


def test_everything_is_held_with_a_reason_by_who_may(admin_client, policy):
    assert "Hold everything" in text_of(admin_client)
    admin_client.post(ACT, {"do": "hold:", "reason": " "})
    assert not Hold.objects.exists()
    admin_client.post(ACT, {"do": "hold:", "reason": "the disk is changed"})
    assert Hold.objects.get().reason == "the disk is changed"
    Hold.objects.all().delete()
    onlooker = staff("view_source")
    assert "Hold everything" not in text_of(onlooker)
    assert onlooker.post(ACT, {"do": "hold:", "reason": "no"}).status_code == 403
    assert not Hold.objects.exists()


def test_what_stops_all_stands_before_the_sources_that_it_stops(admin_client):
    make_assignment(make_policy(), make_source(name="laptop-anna"))
    page = text_of(admin_client)
    assert page.index("No worker is alive: start one with <code>manage.py worker</code>") < page.index(
        "laptop-anna</a>"
    )


@pytest.mark.parametrize("check_within", [None, 86_400])
def test_what_a_check_or_drill_found_is_a_need_with_the_buttons_that_mend_it(admin_client, policy, check_within):
    Policy.objects.update(check_within=check_within)
    doubtful = well(policy, name="laptop-anna")
    Assignment.objects.update(drill_error="point 20260301T090000Z: 1 of 2 files is missing")
    damage = {"point": "20260301T090000Z", "path": "a", "place": "current", "why": "it is missing"}
    CheckRound.objects.create(assignment=doubtful, planned_at=timezone.now(), damage=[damage])
    raising.look(timezone.now())
    page = text_of(admin_client)
    assert "0 of 1 protected · 1 need" in page
    assert page.count("laptop-anna</a>") == 1  # and no second time as an alert
    for place in (page, text_of(admin_client, f"/admin/sources/source/{doubtful.source_id}/change/")):
        assert "a check found damage in" in place.lower()
        assert ("no check comes automatically" in place) == (check_within is None)
        for verb in ("check", "drill"):
            assert f'href="/admin/sources/assignment/{doubtful.pk}/{verb}/"' in place
        assert "/accept/" not in place
    assert "/check/" not in text_of(staff("view_source"))


def test_what_fails_alike_stands_there_once_with_a_link_to_all_of_it(admin_client, policy):
    def fail(name: str, error: str, before: str = "", **source: Any) -> None:
        """`before`: the error by which it gave up, earlier or, without another one, now."""
        subject = subject_of(backed_up(policy, NOW - HOUR, source=make_source(name=name, **source), failures=2).pk)
        waiting = {"waiting_for": WaitingFor.BACKOFF, "run_after": NOW + HOUR}
        if before:
            make_record(Status.FAILED, kind=KIND, subject=subject, last_error=before, finished_at=NOW - HOUR)
        if error or not before:
            make_record(Status.WAITING, kind=KIND, subject=subject, last_error=error, **waiting)

    away = "host filer, port 22: no <answer> & no 100%\nTraceback"
    for number in range(18):
        fail(f"laptop-{number:02}", away)
    fail("laptop-18", "", before=away)
    fail("laptop-19", away, before="host filer")
    fail("paused", away, paused_at=NOW)
    for name in ("server", "server-2"):
        fail(name, "host filer", before=away)  # with which the other error begins
    fail("share", "")
    fail("damaged", away)
    Assignment.objects.filter(source__name="damaged").update(drill_error="1 of 2 files is missing")
    make_assignment(policy, make_source(name="new"))
    page = text_of(admin_client)
    assert page.count("no &lt;answer&gt;") == 2  # that of the damaged one says more
    more = {int(number): link for link, number in re.findall(r'href="([^"]+)">and (\d+) more that fail', page)}
    assert set(more) == {19, 1}
    servers, listed = (text_of(admin_client, html.unescape(more[number])) for number in (1, 19))
    assert ("server<" in servers, "server-2<" in servers, "laptop-00<" in servers) == (True, True, False)
    assert [f"laptop-{number:02}<" in listed for number in range(20)] == [True] * 20
    assert not any(f"{name}<" in listed for name in ("server", "share", "new", "paused", "damaged"))
    assert all(f"{name}</a>" in page for name in ("laptop-00", "server", "share", "new", "damaged"))
    assert "more</a></p>" not in page  # none is left


def test_buttons_that_mend_name_the_policy_where_several_need_them(admin_client, policy):
    source = make_source(name="nas")
    damage = [{"point": "20260301T090000Z", "path": "a", "place": "current", "why": "it is missing"}]
    under = [make_assignment(each, source, last_backup_at=NOW) for each in (policy, make_policy())]
    CheckRound.objects.create(assignment=under[0], planned_at=NOW, damage=damage)

    def labels(path: str) -> list[str]:
        return sorted(re.findall(r">(Check now[^<]*)</a>", text_of(admin_client, path)))

    page = f"/admin/sources/source/{source.pk}/change/"
    assert labels(page) == ["Check now"]
    CheckRound.objects.create(assignment=under[1], planned_at=NOW, damage=damage)
    named = sorted(f"Check now ({each.policy})" for each in under)
    assert labels(page) == labels(FACTS) == named
    assert all(f'aria-label="{each}: nas"' in text_of(admin_client, FACTS) for each in named)


def test_a_button_is_refused_as_the_admin_refuses_it(policy):
    in_need = make_assignment(policy)
    for person in (staff(), staff("view_source", "view_backlogrecord")):
        assert person.post(ACT, {"do": f"back_up_now:{in_need.source_id}"}).status_code == 403
        assert person.post(ACT, {"do": "resume_queue:backups"}).status_code == 403
        assert person.post(ACT, {"do": f"delete_selected:{in_need.source_id}"}).status_code == 400
    assert not BacklogRecord.objects.exists()
