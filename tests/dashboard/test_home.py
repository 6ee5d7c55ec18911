"""The home page: what it says is true, to each person what he may look at, and what did not change costs a 304."""

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboard.work import SHOWN, WAITS, coming, next_due
from jobs.backlog import hold, pause_queue
from jobs.models import BacklogRecord, Breaker, Hold, Lane, PausedQueue
from jobs.states import Status, WaitingFor
from operations.backlog.attention import findings
from operations.backlog.summary import summary
from sources.models import Assignment, Progress, Repository
from sources.planning import AVAILABILITY, BACKUPS, KIND, REMOVAL, subject_of
from tests.dashboard import home_pages
from tests.dashboard.home_pages import ACT, FACTS, HOUR, NOW, text_of, well
from tests.factories import make_record
from tests.people import staff
from tests.sources.factories import make_assignment, make_policy, make_source

_forget, policy = home_pages._forget, home_pages.policy

pytestmark = pytest.mark.django_db


def test_is_not_well_while_a_queue_is_paused_and_resumes_it(admin_client, policy):
    well(policy)
    pause_queue("backups", "disk is moved")
    page = text_of(admin_client)
    assert "is-well" not in page
    assert "Queue backups has been paused" in page
    assert "disk is moved" in page
    admin_client.post(ACT, {"do": "resume_queue:backups"})
    assert not PausedQueue.objects.exists()
    assert "is-well" in text_of(admin_client)


def test_says_what_every_summary_says_of_queues_and_breakers(admin_client, policy):
    pause_queue("backups", "disk is moved")
    facts = {"failures": 3, "opened_at": timezone.now() - HOUR, "probe_at": NOW, "last_error": "it is full\n"}
    breaker = Breaker.objects.create(key="repository:7", title="repository nas", **facts)
    make_record(Status.WAITING, waiting_for=WaitingFor.BREAKER, breaker=breaker)
    make_record(Status.FAILED, finished_at=NOW)
    page = html.unescape(text_of(admin_client))
    said = {each.kind: each.text for each in findings(summary())}
    assert said["open_breakers"].startswith(
        "Repository nas has kept failing for 1 h (it is full); 1 record waits for it"
    )
    for kind in ("open_breakers", "dead_letters"):
        assert said[kind] in page
    assert "disk is moved" in said["paused_queues"]
    assert said["paused_queues"].partition(" for ")[0] in page
    assert f"/admin/jobs/breaker/{breaker.pk}/change/" in page


def test_what_passes_by_the_second_costs_a_304(admin_client, policy):
    pause_queue("backups", "disk is moved")
    PausedQueue.objects.update(paused_at=timezone.now() - timedelta(seconds=3.2))
    first = admin_client.get(FACTS)
    PausedQueue.objects.update(paused_at=timezone.now() - timedelta(seconds=5.7))
    text_of(admin_client)
    assert admin_client.get(FACTS, headers={"If-None-Match": first["ETag"]}).status_code == 304


@pytest.mark.parametrize("name", ["gone", "\0"])
def test_a_queue_that_is_there_no_more_is_told(admin_client, name):
    answer = admin_client.post(ACT, {"do": f"resume_queue:{name}"}, follow=True)
    assert [str(each) for each in answer.context["messages"]] == [f"There is no queue {name!r} any more."]


def test_more_runs_than_are_shown_are_a_link_to_those_that_run(admin_client, policy):
    well(policy)
    running = [make_record(Status.RUNNING, queue=BACKUPS).pk for _ in range(SHOWN + 1)]
    make_record(Status.SUCCEEDED)
    [link] = re.findall(r'href="([^"]*)">and 1 more<', text_of(admin_client))
    assert [row.pk for row in admin_client.get(link).context["cl"].result_list] == running[::-1]


def test_a_run_is_shown_with_its_speed_and_its_end(admin_client, policy):
    assignment = well(policy, name="laptop-bert")
    record = make_record(
        Status.RUNNING, kind=KIND, queue=BACKUPS, subject=subject_of(assignment.pk), started_at=timezone.now() - HOUR
    )
    Progress.objects.create(record_id=record.pk, attempt=1, bytes_done=3_600 * 2**20, bytes_total=7_200 * 2**20)
    page = text_of(admin_client)
    assert "laptop-bert</a> · rclone" in page
    assert re.search(r"50 % of 7.0 GB · (1.0 MB|102\d\.\d KB)/s", page)
    [until] = re.findall(r'until about <time datetime="([^"]+)"', page)
    assert abs(datetime.fromisoformat(until) - timezone.now() - HOUR) < timedelta(minutes=5)


def test_what_did_not_change_costs_a_304(admin_client, policy, django_assert_max_num_queries):
    well(policy)
    first = admin_client.get(FACTS)
    with django_assert_max_num_queries(8):  # the session, the account, its permissions; a bound of ten seconds
        again = admin_client.get(FACTS, headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    make_assignment(policy)
    text_of(admin_client)  # the whole page is always true, and its facts serve the others
    assert admin_client.get(FACTS, headers={"If-None-Match": first["ETag"]}).status_code == 200


def test_shows_each_person_what_he_may_look_at(policy):
    make_assignment(policy, make_source(name="laptop-anna"))
    parts = {"view_source": "laptop-anna", "view_repository": policy.repository.name, "view_worker": "host:"}
    for permission in parts:
        page = text_of(staff(permission), FACTS)
        assert [name for name, text in parts.items() if text in page] == [permission]
    assert not any(text in text_of(staff(), FACTS) for text in parts.values())


def test_costs_as_many_statements_however_many_sources_there_are(admin_client, policy):
    def statements() -> int:
        admin_client.get("/")
        with CaptureQueriesContext(connection) as captured:
            admin_client.get("/")
        return len(captured)

    make_assignment(policy)
    well(policy)
    few = statements()
    for _ in range(5):
        make_assignment(policy)
        well(policy)
    assert statements() == few


def test_the_latest_proof_and_the_next_date_are_found_before_anything_is_joined(admin_client, policy):
    later = timezone.now() + timedelta(hours=2)
    Assignment.objects.filter(pk=well(policy).pk).update(next_backup_at=later + timedelta(hours=1))
    make_assignment(make_policy(), make_source(paused_at=timezone.now()), next_backup_at=later - timedelta(hours=1))
    make_assignment(policy, next_backup_at=later)
    make_assignment(make_policy(), next_backup_at=later + timedelta(hours=1))
    assert next_due(timezone.now()) == later
    with CaptureQueriesContext(connection) as captured:
        admin_client.get("/")
    [proof] = [each["sql"] for each in captured if 'ORDER BY "sources_assignment"."proved_at"' in each["sql"]]
    assert "JOIN" not in proof


def test_an_empty_installation_is_led_step_by_step(admin_client):
    page = text_of(admin_client)
    assert page.count("to do </span>") == 7
    assert "/admin/sources/repository/add/" in page
    assert "is-well" not in page
    Repository.objects.create(name="office", location="/srv/backups")
    assert text_of(admin_client).count("done </span>") == 1


def test_a_hold_stands_there_once_and_is_released_with_a_button_by_who_may(admin_client, policy):
    make_record(Status.READY, kind=KIND, queue=BACKUPS, subject=subject_of(well(policy).pk))
    hold("the store burns", by="anna")
    page = text_of(admin_client)
    assert page.count("the store burns") == 1
    assert "Nothing starts before everything is released." in page
    assert "the store burns" in text_of(admin_client, FACTS)
    assert staff("sources.view_source").post(ACT, {"do": "release:"}).status_code == 403
    admin_client.post(ACT, {"do": "release:"})
    assert not Hold.objects.exists()
    assert "the store burns" not in text_of(admin_client)


@pytest.mark.parametrize(("free", "said"), [(0, "nearly full"), (99, "nearly full"), (100, "too little history")])
def test_a_full_repository_is_not_said_to_need_more_history(admin_client, policy, free, said):
    well(policy)
    Repository.objects.update(room_free=free, room_total=1000)
    text = text_of(admin_client)
    assert [each for each in ("nearly full", "too little history") if each in text] == [said]


def test_a_removal_that_comes_next_is_not_said_to_be_a_question_to_a_source(admin_client, policy):
    well(policy)
    make_record(Status.READY, kind=REMOVAL, queue=AVAILABILITY, subject="source:7", payload={"title": "old-laptop"})
    assert "removal: starts at the next free execution unit" in text_of(admin_client)


def test_a_source_that_was_deleted_does_not_come_next(admin_client, policy):
    gone, there = well(policy, name="gone"), well(policy, name="there")
    for each in (gone, there):
        payload = {"title": each.source.name}
        make_record(
            Status.WAITING, kind=KIND, subject=subject_of(each.pk), waiting_for=WaitingFor.START, payload=payload
        )
    gone.source.delete()
    text = text_of(admin_client)
    assert ("gone" in text, "there" in text) == (False, True)


def test_what_waits_stands_there_in_plain_words(admin_client, policy):
    assert set(WAITS) == set(WaitingFor)
    laptop = well(policy, name="laptop")
    at = datetime(2026, 3, 2, 9, tzinfo=UTC)
    make_record(Status.WAITING, kind=KIND, subject=subject_of(laptop.pk), waiting_for=WaitingFor.RECHECK, run_after=at)
    text = text_of(admin_client)
    assert "did not answer, and is not asked again before <time" in text
    assert "2026-03-02 09:00 UTC" in text
    assert "recheck" not in text


def test_what_is_kept_for_open_pages_has_its_age_and_is_never_old(admin_client, policy, monkeypatch):
    clock = {"now": 1_000.0}
    monkeypatch.setattr("dashboard.home.monotonic", lambda: clock["now"])
    kept: list[float] = []
    monkeypatch.setattr("dashboard.home.cache.set", lambda key, value, seconds: kept.append(seconds))
    assert admin_client.get(FACTS)["Age"] == "0"

    def slowly(template: str, context: Any) -> str:
        clock["now"] += 9.0
        return "facts"

    monkeypatch.setattr("dashboard.home.render_to_string", slowly)
    assert admin_client.get(FACTS)["Age"] == "9"  # as of when they began to be gathered
    assert kept == [5, 25]
    assert "As of <span" in text_of(admin_client)


def test_the_next_records_are_found_in_each_lane_and_shown_in_claim_order():
    """Ordered over all lanes at once, each ready record is sorted."""
    lanes = [0, *(Lane.objects.create(throttle_ids=[number]).pk for number in (1, 2))]
    for number in range(24):
        closes_at = NOW - HOUR if number % 5 == 0 else NOW + HOUR if number % 2 else None
        make_record(
            queue=AVAILABILITY, lane=lanes[number % 3], priority=number * 7 % 4, expected_seconds=50 - number,
            closes_at=closes_at,
        )  # fmt: skip
    with CaptureQueriesContext(connection) as asked:
        found = [each["record"] for each in coming(NOW)]
    expected = BacklogRecord.objects.ready().open_at(NOW).in_claim_order()
    assert found == list(expected.values_list("pk", flat=True)[:SHOWN])
    [sql] = [each["sql"] for each in asked if f"b.queue = '{AVAILABILITY}'" in each["sql"]]
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        cursor.execute(f"EXPLAIN {sql}")
        assert "backlog_claim_order" in str(cursor.fetchall())
