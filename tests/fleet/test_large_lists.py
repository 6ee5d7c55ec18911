"""Lists that are as quick with millions of rows as with few: what they find, and what they leave out for that."""

from collections import Counter
from datetime import timedelta

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backupsched import urls  # noqa: F401 - loads the pages of the admin
from declarations.surfaces.admin import base
from jobs.states import Status, WaitingFor
from schedules.models import Trigger
from sources.models import Policy, Restore
from sources.planning import KIND, subject_of
from tests.factories import make_record
from tests.fleet.lists_of_the_admin import BACKUPS, NOW, SOURCES, listed, make_backup
from tests.sources.factories import make_assignment, make_policy, make_source, policy_named

pytestmark = pytest.mark.django_db


def test_no_list_counts_the_choices_of_its_filters() -> None:
    assert {each.show_facets for each in admin.site._registry.values()} == {admin.ShowFacets.NEVER}


@pytest.mark.parametrize("many", [False, True])
def test_backups_are_found_by_the_words_of_the_source_or_as_a_point_begins(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    if many:
        monkeypatch.setattr("fleet.admin.backup_pages.MOST_SEARCHED", 1)
    old, new = make_backup("Laptop of Anna", 9, "20260301T090000Z"), make_backup("laptop of Ben", 1, "20260302T090000Z")
    assert listed(admin_client, BACKUPS, q="laptop") == [new.pk, old.pk]
    assert listed(admin_client, BACKUPS, q="anna LAP") == [old.pk]
    with CaptureQueriesContext(connection) as asked:
        assert listed(admin_client, BACKUPS, q="laptop", p="1") == [new.pk, old.pk]
    of_backups = [each["sql"] for each in asked if 'FROM "sources_backup"' in each["sql"]]
    assert [sql.endswith("LIMIT 10000") for sql in of_backups if "ORDER BY" in sql] == [True]
    assert not [sql for sql in of_backups if "COUNT(" in sql], "they are looked for again for their count"
    [search] = [sql for sql in of_backups if "ORDER BY" in sql]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {search}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert plan.count("(hashed SubPlan") == (2 if many else 0), plan
    assert listed(admin_client, BACKUPS, q="20260302") == [new.pk]
    assert listed(admin_client, BACKUPS, q="nothing") == []
    assert listed(admin_client, BACKUPS, engine="rclone") == [new.pk, old.pk]
    assert listed(admin_client, BACKUPS, engine="restic") == []


@pytest.mark.parametrize("many", [False, True])
def test_many_assignments_are_found_by_reading_their_sources_as_a_whole(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    if many:
        monkeypatch.setattr(base, "MOST_FOUND", 0)
    policy = make_policy()
    anna, ben = (make_assignment(policy, make_source(name=name)).pk for name in ("Laptop of Anna", "laptop of Ben"))
    for text, found in (("laptop", [anna, ben]), ("ben LAP", [ben]), ("'of Anna' lap", [anna]), ('"anna of"', [])):
        with CaptureQueriesContext(connection) as sent:
            assert sorted(listed(admin_client, "/admin/sources/assignment/", q=text)) == found
        assert any(" IN (0)" in each["sql"] for each in sent) is (many and bool(found))


@pytest.mark.parametrize("path", [SOURCES, BACKUPS, "/admin/sources/assignment/"])
def test_a_row_makes_no_part_that_all_rows_share_and_looks_for_none_that_is_missing(
    admin_client: Client, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    """Heads, labels and checkboxes, each of which the theme makes from templates. A template that finds no attribute
    lists all that there are."""
    caplog.set_level("DEBUG", "django.template")
    made, missing = [], []
    for number in range(3):
        make_backup(f"source {number}", number, "20260301T090000Z")
        caplog.clear()
        answer = admin_client.get(path)
        made.append(Counter(each.name for each in answer.templates))
        missing.append(Counter(each.getMessage() for each in caplog.records))
    assert answer.content.count(b'name="_selected_action" value="') == 3 * (path != BACKUPS)
    assert set(made[2] - made[1]) <= {"unfold/helpers/actions_row.html"}
    assert missing[2]
    assert missing[2] - missing[1] == Counter()


def test_a_page_has_its_rows_in_order_and_with_their_status(admin_client: Client) -> None:
    policy = make_policy()
    for name, failures in (("c", 0), ("b", 2), ("a", 0)):
        make_assignment(policy, make_source(name=name), failures=failures, last_backup_at=NOW)
    rows = admin_client.get(SOURCES, {"o": "-1"}).context["cl"].result_list
    assert [(row.name, row.status == "failing") for row in rows] == [("c", False), ("b", True), ("a", False)]
    for order, names in (({}, "bac"), ({"o": "2"}, "bac"), ({"o": "-2"}, "cab"), ({"o": "-2", "q": "srv"}, "cab")):
        rows = admin_client.get(SOURCES, order).context["cl"].result_list
        assert "".join(row.name for row in rows) == names
    by_status = admin_client.get(SOURCES, {"status": "failing"}).context["cl"]
    assert ([row.name for row in by_status.result_list], by_status.result_count) == (["b"], 1)
    make_source(name="a lone one")
    in_need = admin_client.get(SOURCES, {"status": "needs you"}).context["cl"].result_list
    assert [row.name for row in in_need] == ["b", "a lone one"]  # the worst first, not by name


@pytest.mark.parametrize(
    ("asked", "costly"),
    [
        ({"status": "absent"}, "min(each.place)"),
        ({"status": "protected"}, "min(each.place)"),
        ({"status": "failing"}, "min(each.place)"),
        ({"status": "needs you"}, "SELECT ARRAY("),
        ({"error": "no route to host"}, "split_part(record.last_error"),
    ],
)
def test_what_a_list_is_filtered_by_is_looked_up_once_for_its_count_and_its_page(
    admin_client: Client, asked: dict[str, str], costly: str
) -> None:
    for name, fields in (("a", {}), ("b", {"failures": 2})):
        assignment = make_assignment(make_policy(), make_source(name=name), last_backup_at=NOW, **fields)
        make_record(
            Status.WAITING, kind=KIND, subject=subject_of(assignment.pk), waiting_for=WaitingFor.RECHECK,
            run_after=NOW + timedelta(hours=1), last_error="no route to host\nat all" if fields else "",
        )  # fmt: skip
    make_assignment(make_policy(), make_source(name="c"), last_backup_at=NOW, next_backup_at=NOW + timedelta(days=1))
    with CaptureQueriesContext(connection) as sent:
        page = admin_client.get(SOURCES, asked).context["cl"]
    expected = {"absent": "a", "protected": "c"}.get(asked.get("status", ""), "b")
    assert ([row.name for row in page.result_list], page.result_count) == ([expected], 1)
    whole = [each["sql"] for each in sent if costly in each["sql"]]  # but for the status of the rows of the page
    assert len([sql for sql in whole if "error" in asked or "SELECT ids FROM few" not in sql]) == 1


@pytest.mark.parametrize(
    ("asked", "index"), [
        ({}, "backup_by_end"), ({"policy": 1}, "backup_of_assignment_by_end"),
        ({"repository__id__exact": 1}, "backup_in_repository_by_end"),
    ],
)  # fmt: skip
def test_the_ids_of_backups_are_read_from_an_index_alone(
    admin_client: Client, asked: dict[str, int], index: str
) -> None:
    backup, other = make_backup("a", 1, "a"), make_backup("b", 2, "b")
    chosen = {"policy": backup.assignment.policy_id, "repository__id__exact": backup.repository_id}
    with CaptureQueriesContext(connection) as queries:
        found = listed(admin_client, BACKUPS, **{name: chosen[name] for name in asked})
    assert found == ([backup.pk] if asked else [backup.pk, other.pk])
    [ids] = [each["sql"] for each in queries if each["sql"].startswith('SELECT "sources_backup"."id" AS "pk" FROM')]
    with connection.cursor() as cursor:
        for way in ("seqscan", "bitmapscan", "sort", "incremental_sort"):  # few rows are sorted
            cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute(f"EXPLAIN {ids}")
        assert f"Index Only Scan Backward using {index}" in str(cursor.fetchall())


def test_sources_of_policies_are_counted_for_the_rows_of_the_page_alone(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin.site._registry[Policy], "list_per_page", 2)
    for number in range(3):
        policy = policy_named(f"policy {number}")
        for _ in range(number):
            make_assignment(policy)
    with CaptureQueriesContext(connection) as sent:
        page = admin_client.get("/admin/sources/policy/").context["cl"]
    assert [(str(row), row.sources) for row in page.result_list] == [("policy 0", 0), ("policy 1", 1)]
    [counted] = [each["sql"] for each in sent if "COUNT(" in each["sql"] and "sources_assignment" in each["sql"]]
    assert '"sources_policy"."id" IN (' in counted


def test_assignments_are_counted_without_what_their_status_is_read_from(admin_client: Client) -> None:
    make_assignment(), make_assignment()
    with CaptureQueriesContext(connection) as sent:
        assert admin_client.get("/admin/sources/assignment/").context["cl"].result_count == 2
    [counted] = [each["sql"] for each in sent if "COUNT(" in each["sql"]]
    assert counted.endswith('FROM "sources_assignment"')
    number = {"never": 2, "failing": 0}
    for asked in ({"status": "never"}, {"status": "failing"}, {"status": "never", "held_back_since__isempty": "1"}):
        with CaptureQueriesContext(connection) as sent:
            page = admin_client.get("/admin/sources/assignment/", asked).context["cl"]
            assert (
                len(admin_client.get("/api/assignments", {"status": asked["status"]}).json()["items"])
                == page.result_count
            )
        assert page.result_count == number[asked["status"]]
        found = [each["sql"] for each in sent if "unnest(" in each["sql"] and "sources_assignment" in each["sql"]]
        counted, of_the_api = found[0], found[-1]
        assert "COUNT(" in counted
        assert "JOIN" not in counted + of_the_api


@pytest.mark.parametrize("path", [SOURCES, "/admin/sources/assignment/"])
@pytest.mark.parametrize("many", [False, True])
def test_a_search_that_no_index_serves_is_done_once_for_few_rows(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, path: str, many: bool
) -> None:
    monkeypatch.setattr(base, "MOST_FOUND", 1 if many else 2)
    rows = [make_assignment(make_policy(), make_source(name=name)) for name in ("Laptop of Anna", "laptop", "desktop")]
    with CaptureQueriesContext(connection) as sent:
        found = listed(admin_client, path, q="LAPTOP")
    assert sorted(found) == [row.source_id if path == SOURCES else row.pk for row in rows[:2]]
    searches = [each["sql"] for each in sent if "LIKE UPPER('%LAPTOP%')" in each["sql"]]
    assert (len(searches) == 1) is not many
    assert len(listed(admin_client, path, q="anna laptop")) == 1
    assert listed(admin_client, path, q="nothing like it") == []


def test_a_filter_of_assignments_asks_for_the_status_of_those_that_may_have_it(admin_client: Client) -> None:
    """And of no others: each is nine conditions."""
    bad = make_assignment(failures=2, last_backup_at=NOW)
    make_assignment(last_backup_at=NOW)
    with CaptureQueriesContext(connection) as asked:
        assert listed(admin_client, "/admin/sources/assignment/", status="failing") == [bad.pk]
    [found] = [each["sql"] for each in asked if 'WHERE ("sources_assignment"."failures" > 0 AND' in each["sql"]]
    assert found.startswith("SELECT ARRAY("), "it is looked for again for the count and the page of many"
    assert "::text) AS" not in found, "each record is looked up for its assignment"
    for asked_too in ({}, {"policy": bad.policy_id}, {"source": bad.source_id}):
        answer = admin_client.get("/api/assignments", {"status": "failing"} | asked_too)
        assert [each["id"] for each in answer.json()["items"]] == [bad.pk]
    asked_too = {"status": "failing", "policy": str(bad.policy_id)}
    assert listed(admin_client, "/admin/sources/assignment/", **asked_too) == [bad.pk]
    away = make_assignment(last_backup_at=NOW)
    make_record(Status.WAITING, kind=KIND, subject=subject_of(away.pk), waiting_for=WaitingFor.RECHECK)
    with CaptureQueriesContext(connection) as asked:
        assert listed(admin_client, "/admin/sources/assignment/", status="absent") == [away.pk]
    [found] = [each["sql"] for each in asked if "overdue_since" in each["sql"] and "SELECT ARRAY(" in each["sql"]]
    assert "unnest" in found, "the planner, which expects one, reads all policies for each"


@pytest.mark.parametrize("path", ["/api/backups", "/api/triggers", "/api/restores"])
def test_a_list_of_the_api_asks_as_often_for_many_rows_as_for_one(admin_client: Client, path: str) -> None:
    asked = []
    for number in range(3):
        backup = make_backup(f"source {number}", number, "20260301T090000Z")
        Trigger.objects.create(schedule=backup.assignment.policy.schedule, trigger_at=NOW)
        Restore.objects.create(
            assignment=backup.assignment, repository=backup.repository, point="20260301T090000Z", to="folder",
            asked_by="kim", asked_at=NOW,
        )  # fmt: skip
        with CaptureQueriesContext(connection) as statements:
            assert len(admin_client.get(path).json()["items"]) == number + 1
        asked.append(len(statements))
    assert asked[1] == asked[2]


def test_a_list_that_ends_after_its_first_rows_says_so(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make_backup("a", 1, "20260301T090000Z")
    assert b"are listed" not in admin_client.get(BACKUPS).content
    monkeypatch.setattr(base, "MOST_LISTED", 1)
    assert b"The first 1 are listed. There may be more" in admin_client.get(BACKUPS).content
