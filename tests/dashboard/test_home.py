"""The home page: what it says is true, to each person what he may look at, and what did not change costs a 304."""

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from alerting import raising
from dashboard.needs import of_sources
from dashboard.work import WAITS
from jobs.backlog import hold, pause_queue
from jobs.models import BacklogRecord, Breaker, Hold, PausedQueue
from jobs.states import Status, WaitingFor
from operations.backlog.attention import findings
from operations.backlog.summary import summary
from sources.models import Assignment, CheckRound, Policy, Progress, Repository
from sources.planning import AVAILABILITY, BACK_UP_NOW_PRIORITY, BACKUPS, KIND, REMOVAL, subject_of
from tests.factories import make_record, make_worker
from tests.people import staff
from tests.sources.factories import backed_up, make_assignment, make_policy, make_source, record_of

pytestmark = pytest.mark.django_db

NOW = timezone.now()
HOUR = timedelta(hours=1)
FACTS, ACT = "/home/facts/", "/home/act/"


@pytest.fixture(autouse=True)
def _forget() -> None:
    cache.clear()


@pytest.fixture
def policy() -> Policy:
    make_worker()
    return make_policy()


def text_of(client: Client, path: str = "/") -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer
    return " ".join(answer.content.decode().split())


def well(policy: Policy, **fields: Any) -> Any:
    return backed_up(policy, NOW - HOUR, source=make_source(**fields))


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
    assert "Its first backup is being made since" in page
    assert "back_up_now:" not in page


def test_the_chips_add_up_to_the_numbers_of_the_sentence(admin_client, policy):
    """What runs or is due counts as protected in the sentence, and had a chip beside that of the protected."""
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
    assert "it is tried again at" in shown[1]
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
        assert ("no check comes by itself" in place) == (check_within is None)
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
    assert "did not answer, and is asked again at <time" in text
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
