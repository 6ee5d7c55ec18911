"""Lists and filters of records that are as quick with millions of rows as with few."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backupsched import urls  # noqa: F401 - loads the pages of the admin
from fleet.status import common_errors
from jobs.models import BacklogRecord
from jobs.states import Status, WaitingFor
from operations.admin import large_pages
from operations.backlog import search, selection
from operations.backlog.selection import filtered, with_answers
from sources.planning import KIND, subject_of
from tests.factories import make_record
from tests.fleet.lists_of_the_admin import NOW, RECORDS, listed
from tests.schedules.event_records import delivered, make_event_schedule, refused
from tests.sources.factories import make_assignment, make_policy, make_source

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("asked", [{"answer": "2xx"}, {"events": "yes"}, {"kind": KIND}])
def test_records_are_found_once_for_their_count_and_their_page(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, asked: dict[str, str]
) -> None:
    """The order of the list: no index serves these filters, and what they find may be at one end of the table."""
    schedule = make_event_schedule()
    backups = [make_record(Status.SUCCEEDED, kind=KIND).pk for _ in range(3)]
    events = [delivered(schedule, number).pk for number in (1, 2, 3)]
    expected = sorted(backups if KIND in asked.values() else events, reverse=True)
    for per_page, number, rows in ((50, 1, expected), (2, 1, expected[:2]), (2, 2, expected[2:])):
        monkeypatch.setattr(admin.site._registry[BacklogRecord], "list_per_page", per_page)
        with CaptureQueriesContext(connection) as sent:
            page = admin_client.get(RECORDS, asked | {"p": str(number)}).context["cl"]
        assert ([row.pk for row in page.result_list], page.result_count) == (rows, 3)
        of_records = [each["sql"] for each in sent if '"jobs_backlogrecord"."kind"' in each["sql"]]
        [search, *others] = [sql for sql in of_records if "ORDER BY" in sql]
        assert search.endswith(" DESC LIMIT 10000")
        assert all('"jobs_backlogrecord"."id" IN (' in sql for sql in others)
        assert not [sql for sql in of_records if "COUNT(" in sql]


@pytest.mark.parametrize("per_page", [3, 2])
def test_a_page_is_as_long_as_its_count_says_also_when_a_record_leaves_the_filter_meanwhile(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, per_page: int
) -> None:
    monkeypatch.setattr(admin.site._registry[BacklogRecord], "list_per_page", per_page)
    leaving, *others = [make_record(Status.SUCCEEDED, kind=KIND).pk for _ in range(3)][::-1]

    def leave(execute: Any, sql: str, *rest: Any) -> Any:
        found = execute(sql, *rest)
        if "LIMIT 10000" in sql:
            BacklogRecord.objects.filter(pk=leaving).update(kind="other")
        return found

    with connection.execute_wrapper(leave):
        page = admin_client.get(RECORDS, {"kind": KIND}).context["cl"]
    assert ([row.pk for row in page.result_list], page.result_count) == ([leaving, *others][:per_page], 3)
    assert BacklogRecord.objects.get(pk=leaving).kind == "other"


def test_records_that_have_ended_are_listed_in_another_order(admin_client: Client) -> None:
    ended = [make_record(Status.SUCCEEDED, finished_at=NOW - timedelta(hours=hours)).pk for hours in (1, 2)]
    assert listed(admin_client, RECORDS, status="succeeded") == ended


def test_a_dead_letter_is_looked_for_only_where_nothing_is_unfinished() -> None:
    assignment = make_assignment(make_policy(), make_source(name="b"), last_backup_at=NOW, failures=2)
    make_record(Status.READY, kind=KIND, subject=subject_of(assignment.pk), last_error="no route")
    sql, values = common_errors._lines(common_errors._failing())
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE) {sql}", values)
        plan = [row[0] for row in cursor.fetchall()]
    assert common_errors.numbers(["no route"]) == {"no route": 1}
    subplans = [number for number, line in enumerate(plan) if line.strip().startswith("SubPlan")]
    assert len(subplans) == 2, "\n".join(plan)  # by itself, and not in the conditions of joins
    assert "never executed" in plan[subplans[-1] + 1], "\n".join(plan)


def test_a_search_finds_old_records_by_what_is_indexed_and_others_among_the_latest(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = subject_of(make_assignment(source=make_source(name="laptop of Anna")).pk)
    backup = make_record(Status.SUCCEEDED, kind=KIND, subject=subject)
    waiting = make_record(Status.WAITING, payload={"title": "laptop of Ben"})
    failed = make_record(Status.FAILED, last_error="the laptop is full", failures=1, last_failure_at=NOW,
                         first_failure_at=NOW)  # fmt: skip
    other = make_record(Status.SUCCEEDED, payload={"title": "laptop that was"})
    with CaptureQueriesContext(connection) as asked:
        assert listed(admin_client, RECORDS, q="laptop") == [other.pk, failed.pk, waiting.pk, backup.pk]
    assert search.searched(BacklogRecord.objects.all(), "laptop", 2) == [other.pk, failed.pk]
    by_status = [sql for each in asked if '"status" = ' in (sql := each["sql"]) and "LIKE UPPER('%laptop%')" in sql]
    assert ['"jobs_backlogrecord"."id" <= ' in sql for sql in by_status] == [True] * 4, "the latest are searched twice"
    monkeypatch.setattr(search, "LATEST", 0)
    assert listed(admin_client, RECORDS, q="laptop") == [failed.pk, waiting.pk, backup.pk]
    assert listed(admin_client, RECORDS, q="Anna laptop") == [backup.pk]
    assert listed(admin_client, RECORDS, q=subject) == [backup.pk]
    assert listed(admin_client, RECORDS, q="laptop", status="waiting") == [waiting.pk]
    assert listed(admin_client, RECORDS, q=other.subject) == []


@pytest.mark.parametrize("many", [False, True])
def test_what_has_not_ended_is_looked_up_by_its_ids_unless_it_is_much(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    """Or the planner walks through all that has ended."""
    if many:
        monkeypatch.setattr(selection, "MOST_LOOKED_UP", 1)
    waiting = [make_record(Status.WAITING).pk for _ in range(2)]
    make_record(Status.SUCCEEDED)
    with CaptureQueriesContext(connection) as asked:
        assert listed(admin_client, RECORDS, status="waiting") == waiting[::-1]
    assert any("unnest" in each["sql"] for each in asked) is not many


def test_what_records_wait_for_is_looked_up_among_those_that_wait(admin_client: Client) -> None:
    waiting = [make_record(Status.WAITING, waiting_for=why).pk for why in (WaitingFor.WINDOW, WaitingFor.BACKOFF)]
    ended = make_record(Status.SUCCEEDED).pk
    with CaptureQueriesContext(connection) as asked:
        assert listed(admin_client, RECORDS, waiting_for__exact=str(int(WaitingFor.BACKOFF))) == waiting[1:]
    [search] = [each["sql"] for each in asked if "LIMIT 10000" in each["sql"]]
    assert f'"status" = {Status.WAITING:d}' in search
    for twice in ({"status": "waiting"}, {"finished_at__isnull": "True"}, {"status": "unfinished"}):
        with CaptureQueriesContext(connection) as asked:
            assert (
                listed(admin_client, RECORDS, waiting_for__exact=str(int(WaitingFor.BACKOFF)), **twice) == waiting[1:]
            )
        assert max(each["sql"].count("unnest") for each in asked) == 1, "two sets of ids are compared one by one"
    assert listed(admin_client, RECORDS, waiting_for__isnull="True") == [ended]
    assert listed(admin_client, RECORDS) == [ended, *waiting[::-1]]


def test_an_error_is_looked_for_where_one_is_shown_and_among_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    fails = {"last_error": "reset by peer", "failures": 1, "last_failure_at": NOW, "first_failure_at": NOW}
    found = [make_record(status, **fails).pk for status in (Status.WAITING, Status.FAILED, Status.CANCELLED)]
    ended = make_record(Status.SUCCEEDED, **fails).pk
    make_record(Status.WAITING)
    with_it = filtered(BacklogRecord.objects.order_by("pk"), {"error": "RESET"})
    assert [each.pk for each in with_it] == [*found, ended]
    monkeypatch.setattr(selection, "LATEST", 1)
    make_record(Status.SUCCEEDED)
    assert [each.pk for each in filtered(BacklogRecord.objects.order_by("pk"), {"error": "RESET"})] == found


@pytest.mark.parametrize("answer", ["5xx", "none"])
@pytest.mark.parametrize("asked", [{}, {"status": "failed"}])
def test_the_answers_of_a_page_of_events_are_read_and_no_others(answer: str, asked: dict[str, str]) -> None:
    schedule = make_event_schedule()
    for number in range(1, 10):
        refused(schedule, number, 503 if answer == "5xx" else None)
    delivered(schedule, 10)
    rows = filtered(with_answers(BacklogRecord.objects.order_by("-pk")), {"answer": answer} | asked)
    sql, values = rows.values("pk")[:2].query.sql_with_params()
    with connection.cursor() as cursor:  # as with millions of records, which cost more to read and to sort
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off")
        cursor.execute(f"EXPLAIN (ANALYZE) {sql}", values)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Index Scan Backward using jobs_backlogrecord_pkey" in plan
    read = [line for line in plan.splitlines() if "Scan" in line and "jobs_attempt_pkey" in line]
    assert {"loops=2)" in line for line in read} == {True}, plan


def test_events_by_an_answer_are_listed_up_to_those_behind_the_page(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_pages, "LOOKED_AHEAD", 2)
    monkeypatch.setattr(admin.site._registry[BacklogRecord], "list_per_page", 1)
    schedule = make_event_schedule()
    events = [refused(schedule, number, 503).pk for number in (1, 2, 3, 4)][::-1]
    for page, found, note in (("1", 3, b"More than 2 were found"), ("2", 4, b"More than 3 were found"), ("3", 4, b"")):
        answer = admin_client.get(RECORDS, {"answer": "5xx", "p": page})
        assert [row.pk for row in answer.context["cl"].result_list] == [events[int(page) - 1]]
        assert answer.context["cl"].result_count == found
        assert note in answer.content
        assert (b"More than" in answer.content) is bool(note)
    assert listed(admin_client, RECORDS, answer="5xx", p="²") == events[:1]


def test_what_was_not_delivered_is_found_without_what_was() -> None:
    sql = str(filtered(BacklogRecord.objects.all(), {"answer": "5xx"}).query)
    assert f'"status" = {Status.CANCELLED:d}' in sql
    assert f'NOT ("jobs_backlogrecord"."status" = {Status.SUCCEEDED:d})' not in sql
