"""Lists of a table that has more rows than can be sorted, or read for one page: what they find, and in which order."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from api import large_tables
from jobs.models import BacklogRecord
from jobs.states import Status
from operations.admin import large_pages
from operations.backlog import search, selection, walking
from operations.backlog.known_names import check_names
from operations.backlog.selection import filtered
from sources.models import Backup
from sources.planning import KIND, subject_of
from tests.factories import NOON, make_record
from tests.fleet.lists_of_the_admin import BACKUPS, NOW, RECORDS, listed, make_backup
from tests.schedules.event_records import delivered, make_event, make_event_schedule
from tests.sources.factories import make_assignment

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("asked", [{"kind": KIND}, {"queue": "backups"}, {"kind": KIND, "status": "succeeded"}])
def test_a_list_of_a_large_table_ends_after_the_latest_records_and_says_so(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, asked: dict[str, str]
) -> None:
    made = [make_record(Status.SUCCEEDED, kind=KIND, queue="backups").pk for _ in range(4)]
    assert listed(admin_client, RECORDS, **asked, o="1") == made[::-1]
    for name in ("MOST_WALKED", "MOST_BY_END"):
        monkeypatch.setattr(large_pages, name, 2)
    monkeypatch.setattr(walking, "MOST_READ", -2)
    answer = admin_client.get(RECORDS, asked | {"o": "3"})
    page = answer.context["cl"]
    assert [row.pk for row in page.result_list] == (made[:1:-1] if "status" not in asked else made[::-1])
    assert (page.result_count, set(page.sortable_by)) == (len(page.result_list), set())
    assert b"More than 2 records would have to be looked at" in answer.content
    none = admin_client.get(RECORDS, asked | {"trigger_at": NOW.isoformat()}).content
    assert b"Nothing is found among the records that were looked at" in none
    assert listed(admin_client, RECORDS) == made[::-1]
    fails = {"failures": 1, "first_failure_at": NOW, "last_failure_at": NOW, "finished_at": NOON - timedelta(hours=1)}
    failed = make_record(Status.FAILED, kind=KIND, **fails).pk
    assert listed(admin_client, RECORDS, kind=KIND, status="failed", o="3") == [failed]
    monkeypatch.setattr(selection, "MOST_LOOKED_UP", 0)
    assert listed(admin_client, RECORDS, kind=KIND, status="failed") == [failed]
    waiting, *_ = (make_record(status, kind=KIND).pk for status in (Status.WAITING, *[Status.CANCELLED] * 2))
    assert listed(admin_client, RECORDS, status="waiting") == [waiting]
    assert b"by what they wait for, or by a search" in admin_client.get(RECORDS, asked | {"status": "waiting"}).content
    for some in ({"id__gt": "0"}, {"id__lte": str(2**40)}):
        assert listed(admin_client, RECORDS, kind=KIND, **some) == [waiting + 2, waiting + 1]
    assert listed(admin_client, RECORDS, kind=KIND, id__in=f"{made[0]},{made[1]}") == made[1::-1]
    for empty in ("schedule", "group", "subject", "o"):
        assert listed(admin_client, RECORDS, kind=KIND, **{empty: ""}) == [waiting + 2, waiting + 1]


def test_the_records_of_a_subject_are_found_by_indexes_in_a_large_table(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "LATEST", 0)
    subject, event = subject_of(7), delivered(make_event_schedule(), 1)
    made = ((Status.SUCCEEDED, KIND), (Status.WAITING, KIND), (Status.SUCCEEDED, "check"))
    old = [make_record(status, kind=kind, subject=subject).pk for status, kind in made]
    assert listed(admin_client, RECORDS, subject=subject) == old[::-1]
    monkeypatch.setattr(walking, "MOST_READ", -2)
    assert listed(admin_client, RECORDS, subject=subject) == old[1::-1]
    for asked in ({"subject": event.subject}, {"q": event.subject}, {"q": event.subject, "status": "succeeded"}):
        assert listed(admin_client, RECORDS, **asked) == [event.pk]
    gone, _ = (make_record(status, subject="77-20260101T000000Z-1") for status in (Status.WAITING, Status.SUCCEEDED))
    for name in ("subject", "q"):  # of an event whose schedule is gone only this one: no index serves the other
        assert listed(admin_client, RECORDS, **{name: gone.subject}) == [gone.pk]
        assert b"whatever their age" in admin_client.get(RECORDS, {name: gone.subject}).content
    for order in ({}, {"o": "2"}, {"status": "failed"}):
        assert b"whatever their age" in admin_client.get(RECORDS, {"subject": subject} | order).content


@pytest.mark.parametrize(("latest", "says_so"), [(1, True), (2, False)])
@pytest.mark.parametrize("most_read", [-2, 10**6])
def test_a_search_that_has_not_looked_at_all_records_says_so(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, latest: int, says_so: bool, most_read: int
) -> None:
    for each in (search, selection):
        monkeypatch.setattr(each, "LATEST", latest)
    monkeypatch.setattr(walking, "MOST_READ", most_read)
    old, _ = (make_record(Status.SUCCEEDED, kind="check", subject=each) for each in ("the old one", "the new one"))
    answer = admin_client.get(RECORDS, {"q": "old"})
    assert [each.pk for each in answer.context["cl"].result_list] == ([] if says_so else [old.pk])
    for text in (b"Words were looked for in records", b"Nothing is found among the records that were looked at"):
        assert (text in answer.content) is says_so
    assert b"Words were looked for" not in admin_client.get(RECORDS).content


def test_backups_of_a_large_table_are_sorted_by_their_size_if_they_are_few(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = make_backup("a", 1, "20260301T090000Z")
    monkeypatch.setattr(walking, "MOST_READ", -2)
    monkeypatch.setattr(walking, "MOST_WALKED", 0)
    monkeypatch.setattr(selection, "MOST_LOOKED_UP", 0)
    for asked, code in (({}, 400), ({"since": NOW - timedelta(hours=2)}, 400), ({"since": NOW}, 200),
                        ({"assignment": backup.assignment_id}, 200)):  # fmt: skip
        assert admin_client.get("/api/backups", asked | {"ordering": "-size"}).status_code == code, asked
    assert len(admin_client.get("/api/backups").json()["items"]) == 1


@pytest.mark.parametrize("asked", [{"ended_since": "x"}, {"status": "succeeded", "finished_at__isnull": "False",
                                                         "kind": KIND}])  # fmt: skip
def test_a_list_of_a_large_table_takes_each_address_that_one_of_a_small_table_takes(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, asked: dict[str, str]
) -> None:
    made = make_record(Status.SUCCEEDED, kind=KIND).pk
    expected = admin_client.get(RECORDS, asked).status_code
    monkeypatch.setattr(walking, "MOST_READ", -2)
    answer = admin_client.get(RECORDS, asked)
    assert answer.status_code == expected != 500
    assert expected == 302 or [row.pk for row in answer.context["cl"].result_list] == [made]


def test_records_that_have_not_ended_are_listed_whatever_their_age(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, _ = make_record(Status.WAITING).pk, [make_record(Status.SUCCEEDED) for _ in range(3)]
    for name, value in ((walking, "MOST_READ"), (large_pages, "MOST_WALKED")):
        monkeypatch.setattr(name, value, -2)
    for asked in ({"finished_at__isnull": "True"}, {"status": "unfinished"}):
        assert listed(admin_client, RECORDS, **asked) == [waiting]


def test_the_list_of_backups_ends_after_the_latest_and_is_sorted_only_if_they_are_few(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, middle, new = (make_backup(name, hours, name) for name, hours in (("laptop", 3), ("pc", 2), ("server", 1)))
    Backup.objects.filter(pk=middle.pk).update(size=9)
    assert listed(admin_client, BACKUPS, o="-5", engine="rclone") == [middle.pk, new.pk, old.pk]
    monkeypatch.setattr(large_pages, "MOST_BY_END", 2)
    monkeypatch.setattr(walking, "MOST_READ", -2)
    answer = admin_client.get(BACKUPS, {"o": "-5", "engine": "rclone"})
    page = answer.context["cl"]
    assert ([row.pk for row in page.result_list], page.sortable_by) == ([new.pk, middle.pk], ())
    assert b"More than 2 backups would have to be looked at" in answer.content
    assert listed(admin_client, BACKUPS) == [new.pk, middle.pk, old.pk]
    assert listed(admin_client, BACKUPS, ended_at__lt=f"{NOW:%Y-%m-%d %H:%M:%S+00:00}") == [new.pk, middle.pk, old.pk]
    assert listed(admin_client, BACKUPS, q="p", o="5") == [old.pk, middle.pk]
    assert listed(admin_client, BACKUPS, policy=str(old.assignment.policy_id), o="5") == [old.pk]
    assert listed(admin_client, BACKUPS, policy="99999") == []
    monkeypatch.setattr("fleet.past_backups.MOST_NAMED", 0)
    assert b"by a smaller policy, a day" in admin_client.get(BACKUPS, {"policy": old.assignment.policy_id}).content
    monkeypatch.setattr("fleet.admin.backup_pages.MOST_SEARCHED", 1)
    Backup.objects.update(snapshot="x")
    assert listed(admin_client, BACKUPS, q="p") == [middle.pk]
    Backup.objects.filter(pk=old.pk).update(snapshot="p1")
    assert listed(admin_client, BACKUPS, q="p") == [middle.pk, old.pk]


@pytest.mark.parametrize("ordering", ["id", "-id", "ended_at", "-ended_at"])
@pytest.mark.parametrize("many", [False, True])
def test_backups_of_a_policy_come_by_its_assignments_or_if_these_are_many_in_pages_that_end_after_some(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, many: bool, ordering: str
) -> None:
    if many:
        monkeypatch.setattr("fleet.past_backups.MOST_NAMED", 0)
    for name in ("MOST_BY_END", "MOST_WALKED"):
        monkeypatch.setattr(large_tables, name, 2)
    made = [make_backup(f"source {number}", -number, "1") for number in range(6)]
    policies = made[0].assignment.policy_id, made[5].assignment.policy_id
    Backup.objects.filter(pk=made[5].pk).update(assignment=made[0].assignment)
    rows, asked, pages = list[int](), {"policy": policies[0], "ordering": ordering}, 0
    while pages < 9:
        page = admin_client.get("/api/backups", asked).json()
        rows, pages = rows + [each["id"] for each in page["items"]], pages + 1
        if page["next"] is None:
            break
        asked["after"] = page["next"]
    first, last = made[0].pk, made[5].pk
    assert rows == ([last, first] if ordering.startswith("-") else [first, last])
    assert pages == (3 if many else 1)
    assert admin_client.get("/api/backups", {"policy": 99999}).json()["items"] == []


def test_backups_that_ended_since_are_looked_up_if_few_and_else_walked_from_there_on(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [make_backup(f"source {number}", 5 - number, "1") for number in range(4)]
    asked = {"since": made[1].ended_at.isoformat(), "ordering": "ended_at"}
    with CaptureQueriesContext(connection) as sent:
        assert len(admin_client.get("/api/backups", asked).json()["items"]) == 3
    assert not [each for each in sent if f"LIMIT {selection.MOST_LOOKED_UP + 1}" in each["sql"]]
    asked |= {"repository": made[3].repository_id}
    expected = ([made[3].pk], None)
    for most, after in ((selection.MOST_LOOKED_UP, expected), (0, ([], made[2].pk))):
        monkeypatch.setattr(selection, "MOST_LOOKED_UP", most)
        monkeypatch.setattr(large_tables, "MOST_BY_END", 2)
        page = admin_client.get("/api/backups", asked).json()
        assert ([each["id"] for each in page["items"]], page["next"]) == after
    page = admin_client.get("/api/backups", asked | {"after": page["next"]}).json()
    assert ([each["id"] for each in page["items"]], page["next"]) == expected


def test_a_name_is_known_from_the_settings_or_a_record_that_is_found_by_an_index_in_a_large_table(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_record(Status.SUCCEEDED, kind="old", queue="was").pk
    check_names("old", "was")
    monkeypatch.setattr(selection, "LATEST", 0)
    check_names("old", "was")
    with pytest.raises(ValueError, match="no queue 'no such'; there are"):
        check_names("old", "no such")
    assert admin_client.get("/api/records", {"kind": "none"}).json()["errors"][0]["message"] == "is not known"
    monkeypatch.setattr(walking, "MOST_READ", -2)
    page = admin_client.get("/api/records", {"kind": "old", "queue": "was"}).json()
    assert [each["id"] for each in page["items"]] == [old]
    assert admin_client.get("/api/records", {"kind": "none"}).json()["items"] == []
    for refused in (admin_client.get("/api/dead-letters", {"kind": "old"}),
                    admin_client.post("/api/records/retry", {"kind": "old"}, "application/json")):  # fmt: skip
        assert "nor in a record that has not succeeded" in refused.json()["errors"][0]["message"]
    with CaptureQueriesContext(connection) as sent:
        check_names(KIND, "backups")
    assert not sent
    for names in (("old", None), (None, "was"), ("no such", None)):
        with pytest.raises(ValueError, match="there are"):
            check_names(*names)
    make_record(Status.WAITING, kind="old", queue="was")
    check_names("old", "was")


@pytest.mark.parametrize(("status", "many"), [("failed", False), ("cancelled", False), ("failed", True)])
def test_records_that_did_not_succeed_are_looked_up_if_few_and_else_walked_to(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, status: str, many: bool
) -> None:
    """Or the planner walks through all that did succeed, in the order of their ids."""
    if many:
        monkeypatch.setattr(selection, "MOST_LOOKED_UP", 0)
    monkeypatch.setattr(large_tables, "MOST_WALKED", 2)
    failures = {"failures": 1, "first_failure_at": NOW, "last_failure_at": NOW} if status == "failed" else {}
    row = make_record(Status[status.upper()], kind=KIND, **failures).pk
    others = [make_record(Status.SUCCEEDED, kind=KIND).pk for _ in range(3)]
    page = admin_client.get("/api/records", {"status": status, "kind": KIND}).json()
    assert ([each["id"] for each in page["items"]], page["next"]) == (([], others[1]) if many else ([row], None))
    by_answer = str(filtered(BacklogRecord.objects.all(), {"status": status, "answer": "5xx"}).query)
    assert by_answer.count("= ANY(ARRAY(") == 1
    with CaptureQueriesContext(connection) as sent:
        assert listed(admin_client, RECORDS, status=status, answer="5xx") == []
    assert {each["sql"].count("= ANY(ARRAY(") for each in sent} == {0, 1}
    page = admin_client.get("/api/records", {"status": status, "ordering": "-finished_at"}).json()
    assert ([each["id"] for each in page["items"]], page["next"]) == ([row], None)
    event = make_event(make_event_schedule(), status=Status[status.upper()], **failures)
    _ = [make_record(Status.SUCCEEDED) for _ in range(3)]
    for found, found_by in (([event.pk], status), ([], "unfinished")):
        page = admin_client.get("/api/records", {"status": found_by, "subject": event.subject}).json()
        assert ([each["id"] for each in page["items"]], page["next"]) == (found, None)


def test_assignments_of_a_large_policy_by_status_are_asked_all_at_once(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = make_assignment(failures=2, last_backup_at=NOW)
    asked = {"status": "failing", "policy": str(bad.policy_id)}
    for most, at_once in ((1, False), (0, True)):
        monkeypatch.setattr("fleet.past_backups.MOST_NAMED", most)
        for path in ("/admin/sources/assignment/", "/api/assignments"):
            with CaptureQueriesContext(connection) as sent:
                assert admin_client.get(path, asked).status_code == 200
            assert any("SELECT unnest(" in each["sql"] for each in sent) == at_once
        assert listed(admin_client, "/admin/sources/assignment/", **asked) == [bad.pk]


def test_a_table_that_was_not_analysed_yet_is_as_large_as_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = SimpleNamespace(_meta=SimpleNamespace(db_table="made"))
    monkeypatch.setattr(walking, "MOST_READ", 100)
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMPORARY TABLE made ON COMMIT DROP AS SELECT repeat('x', 200) FROM generate_series(1, 1000)"
        )
        assert walking.is_large(made)
        cursor.execute("DELETE FROM made")
        cursor.execute("ANALYZE made")
        assert not walking.is_large(made)
        for rows in (0, 20):
            cursor.execute("TRUNCATE made")
            cursor.execute(f"INSERT INTO made SELECT repeat('x', 200) FROM generate_series(1, {rows})")
            cursor.execute("ANALYZE made")
            assert not walking.is_large(made)
            cursor.execute("INSERT INTO made SELECT repeat('x', 200) FROM generate_series(1, 1000)")
            assert walking.is_large(made), f"it has grown since {rows} were analysed"
