"""The pages of sources, assignments and backups in the admin, as a user sees them."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.test import Client
from django.utils import timezone
from django.utils.html import escape
from pytest_django import DjangoAssertNumQueries, DjangoCaptureOnCommitCallbacks

from fleet.admin.sources import SourceAdmin
from fleet.files.apply import apply_fleet
from fleet.status.ordering import FEW
from jobs.models import BacklogRecord
from jobs.states import Status, WaitingFor
from sources.models import Assignment, Backup, Policy, Source
from sources.planning import subject_of
from tests.people import listed, told

pytestmark = pytest.mark.django_db

SOURCES = "/admin/sources/source/"
ASSIGNMENTS = "/admin/sources/assignment/"


@pytest.fixture
def fleet(tmp_path: Path, orders_run_here: None) -> None:
    """A source of each status, which is its name."""
    policies = [
        {"name": "daily", "cron": "0 9 * * *", "repository": "office"},
        {"name": "weekly", "cron": "0 9 * * 6", "repository": "office",
         "window": [{"days": "sat-sun", "start": "08:00", "end": "20:00"}]},
    ]  # fmt: skip
    names = {
        "protected": ["daily", "weekly"],
        "due": ["daily"],
        "failing": ["daily"],
        "never": ["daily", "weekly"],
        "overdue": ["daily", "weekly"],
        "put off": ["daily"],
        "paused": ["daily"],
        "unprotected": [],
        "retired": ["daily"],
    }
    sources = [{"name": n, "kind": "local", "path": f"/srv/{n}", "policies": p} for n, p in names.items()]
    repositories = [{"name": "office", "location": "repository"}]
    data = {"repositories": repositories, "policies": policies, "sources": sources}
    apply_fleet(data, "fleet.json", folder=tmp_path)
    now = timezone.now()
    tomorrow, yesterday = now + timedelta(days=1), now - timedelta(days=1)
    of = Assignment.objects.filter
    due, put_off = (subject_of(of(source__name=name).get().pk) for name in ("due", "put off"))
    BacklogRecord.objects.exclude(subject__in=[due, put_off]).delete()
    BacklogRecord.objects.filter(subject=put_off).update(
        status=Status.WAITING, waiting_for=WaitingFor.WINDOW, run_after=tomorrow
    )
    of(source__name="protected").update(last_backup_at=now, last_backup_for=3.5, next_backup_at=tomorrow)
    of(source__name="due").update(last_backup_at=yesterday, next_backup_at=yesterday)
    of(source__name="failing").update(last_backup_at=yesterday, next_backup_at=yesterday, failures=4)
    of(source__name="never", policy__schedule__name="daily").update(last_backup_at=now, next_backup_at=tomorrow)
    of(source__name="overdue").update(last_backup_at=yesterday, next_backup_at=tomorrow)
    of(source__name="overdue", policy__schedule__name="weekly").update(overdue_since=yesterday)
    of(source__name="put off").update(last_backup_at=yesterday, next_backup_at=yesterday)
    Source.objects.filter(name="paused").update(paused_at=now)
    Source.objects.filter(name="retired").update(retired_at=now)


def add_backup(assignment: Assignment, number: int = 1, **fields: Any) -> Backup:
    now = timezone.now()
    values = {"size": 2048, "read": 1024, "files": 3, "snapshot": "/backups/x", **fields}
    return Backup.objects.create(
        assignment=assignment, repository=assignment.policy.repository, record_id=number, attempt=1,
        engine="rclone", started_at=now - timedelta(seconds=number), ended_at=now, **values,
    )  # fmt: skip


def act(client: Client, action: str, *names: str) -> str:
    """Choose an action of the list for some sources; the message that it answers with."""
    chosen = list(Source.objects.filter(name__in=names).values_list("pk", flat=True))
    return told(client.post(SOURCES, {"action": action, "_selected_action": chosen}))


@pytest.mark.usefixtures("fleet")
class TestSourceList:
    def test_tells_the_status_of_each_source_once_filters_by_status_and_policy_and_sorts(
        self, admin_client: Client
    ) -> None:
        def found(query: str = "") -> dict[str, str]:
            return {source.name: source.status for source in listed(admin_client, f"{SOURCES}{query}")}

        names = ("due", "failing", "never", "overdue", "paused", "protected", "retired", "unprotected")
        assert found() == {name: name for name in names} | {"put off": "waiting"}
        for status in ("due", "never", "retired", "unprotected"):
            assert found(f"?status={status}") == {status: status}
        weekly = Policy.objects.get(schedule__name="weekly")
        # with their status under the other policy
        assert found(f"?policy={weekly.pk}") == {name: name for name in ("never", "overdue", "protected")}
        every = ".".join(f"-{column}" for column in range(1, 9))
        assert len(found(f"?o={every}")) == 9

    def test_lists_the_worst_first_on_each_page_unless_another_order_is_asked_for(
        self, admin_client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(SourceAdmin, "list_per_page", 4)
        pages = [[each.name for each in listed(admin_client, f"{SOURCES}?p={page}")] for page in (1, 2, 3)]
        assert pages == [
            ["failing", "overdue", "never", "unprotected"], ["put off", "due", "protected", "paused"], ["retired"],
        ]  # fmt: skip
        assert [each.name for each in listed(admin_client, f"{SOURCES}?o=1")][:2] == ["due", "failing"]
        assert [each.name for each in listed(admin_client, f"{SOURCES}?q=er")] == ["overdue", "never"]

    def test_is_sorted_by_dates_alike_whether_sources_are_many_or_few(
        self, admin_client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(SourceAdmin, "list_per_page", 5)
        asked = [f"{sign}{date}{more}" for sign in ("", "-") for date in (5, 6, 7) for more in ("", "&q=e", "&p=2")]
        pages = []
        for few in (FEW, 0):
            monkeypatch.setattr("fleet.admin.sources.FEW", few)
            pages.append([[each.name for each in listed(admin_client, f"{SOURCES}?o={order}")] for order in asked])
        assert pages[0] == pages[1]
        assert pages[0][0] != pages[0][9]

    def test_the_address_of_a_row_leads_back_to_the_list_with_its_filters(self, admin_client: Client) -> None:
        page = f"{SOURCES}{Source.objects.get(name='due').pk}/change/"
        for query in ("q=d", "status=due&q=du+ue&o=-5.1", "o=%26%3D%C3%A4.5&kind__exact=local"):
            html = admin_client.get(f"{SOURCES}?{query}").content.decode()
            kept = urlencode({"_changelist_filters": query})
            address = add_preserved_filters({"opts": Source._meta, "preserved_filters": kept}, page)
            assert f'href="{escape(address)}"' in html, query

    def test_shows_fifty_sources_in_as_many_queries_as_six(
        self, admin_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        policies = list(Policy.objects.all())
        more = [Source(name=f"more {number}", kind="local", path="/srv") for number in range(41)]
        Source.objects.bulk_create(more)
        Assignment.objects.bulk_create([Assignment(source=source, policy=p) for source in more for p in policies])
        with django_assert_max_num_queries(14):
            assert len(listed(admin_client, SOURCES)) == 50

    def test_back_up_now_moves_to_the_head_and_leaves_out_the_paused(self, admin_client: Client) -> None:
        text = act(admin_client, "back_up_now", "due", "paused")
        assert "1 backup put at the head" in text
        assert "Left out, being paused, retired or under no enabled policy: 1." in text
        [record] = BacklogRecord.objects.filter(status=Status.READY, priority=100)
        assert record.subject == f"assignment:{Assignment.objects.get(source__name='due').pk}"

    def test_sources_can_be_deleted_together(self, admin_client: Client) -> None:
        chosen = list(Source.objects.filter(name__in=["due", "never"]).values_list("pk", flat=True))
        question = {"action": "delete_selected", "_selected_action": chosen}
        assert b"Are you sure" in admin_client.post(SOURCES, question).content
        assert admin_client.post(SOURCES, {**question, "post": "yes"}).status_code == 302
        assert Source.objects.count() == 7


NEW_SOURCE = {
    "name": "new",
    "kind": "local",
    "path": "/srv/new",
    "wake_address": "255.255.255.255",
    "wake_port": "9",
    "wake_allowed": "unknown",
    "assignments-TOTAL_FORMS": "1",
    "assignments-INITIAL_FORMS": "0",
    "assignments-0-policy": "",
}


@pytest.mark.usefixtures("fleet")
class TestSourcePage:
    def test_a_new_source_with_a_policy_is_put_on_the_backlog(
        self, admin_client: Client, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
    ) -> None:
        daily = Policy.objects.get(schedule__name="daily")
        with django_capture_on_commit_callbacks(execute=True):
            response = admin_client.post(f"{SOURCES}add/", {**NEW_SOURCE, "assignments-0-policy": str(daily.pk)})
        assert response.status_code == 302, response.context["errors"]
        assignment = Assignment.objects.get(source__name="new")
        assert BacklogRecord.objects.unfinished().filter(subject=f"assignment:{assignment.pk}").exists()

    def test_shows_its_last_backups_and_leads_to_its_records(self, admin_client: Client) -> None:
        assignment = Assignment.objects.get(source__name="due")
        add_backup(assignment, warnings=["one file vanished"])
        page = admin_client.get(f"{SOURCES}{assignment.source_id}/change/").content.decode()
        assert "with warnings" in page
        assert "2.0\xa0KB" in page
        link = f"/admin/jobs/backlogrecord/?subject=assignment%3A{assignment.pk}"
        assert link in page
        assert len(listed(admin_client, link)) == 1

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"assignments-0-DELETE": "on"}, "There are backups of due under daily, or copies"),
            ({"assignments-0-policy": "weekly"}, "A policy cannot be exchanged"),
        ],
    )
    def test_saving_it_loses_no_backups_and_leaves_no_record_to_another_policy(
        self, admin_client: Client, changes: dict[str, str], words: str
    ) -> None:
        assignment = Assignment.objects.get(source__name="due")
        add_backup(assignment)
        if name := changes.get("assignments-0-policy"):
            changes = {"assignments-0-policy": str(Policy.objects.get(schedule__name=name).pk)}
        ids = {"id": assignment.pk, "source": assignment.source_id, "policy": assignment.policy_id}
        form = NEW_SOURCE | {"name": "due", "path": "/srv/due", "assignments-INITIAL_FORMS": "1"}
        form |= {f"assignments-0-{field}": str(value) for field, value in ids.items()} | changes
        response = admin_client.post(f"{SOURCES}{assignment.source_id}/change/", form)
        assert response.status_code == 200
        assert words in response.content.decode()
        assert Assignment.objects.get(pk=assignment.pk).policy_id == assignment.policy_id
        assert Backup.objects.filter(assignment=assignment).exists()
        Backup.objects.all().delete()
        assignment.copies.create(repository=assignment.policy.repository, planned_at=timezone.now(), points=["x"])
        assert words in admin_client.post(f"{SOURCES}{assignment.source_id}/change/", form).content.decode()

    @pytest.mark.parametrize("address", ["nine", "99999999999999999999", "²"])
    def test_an_address_that_leads_to_no_source_leads_back(self, admin_client: Client, address: str) -> None:
        assert admin_client.get(f"{SOURCES}{address}/change/").status_code == 302

    def test_takes_as_many_queries_for_ten_backups_as_for_one(
        self, admin_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        assignment = Assignment.objects.get(source__name="due")
        for number in range(1, 11):
            add_backup(assignment, number)
        with django_assert_max_num_queries(34):
            admin_client.get(f"{SOURCES}{assignment.source_id}/change/")


@pytest.mark.usefixtures("fleet")
class TestBackupsAndAssignments:
    def test_backups_are_listed_in_few_queries_and_read_only(
        self, admin_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        for number, assignment in enumerate(Assignment.objects.all(), 1):
            add_backup(assignment, number)
        with django_assert_max_num_queries(15):
            backups = listed(admin_client, "/admin/sources/backup/")
        daily = Policy.objects.get(schedule__name="daily")
        assert len(listed(admin_client, f"/admin/sources/backup/?policy={daily.pk}")) == 8
        assert admin_client.get("/admin/sources/backup/add/").status_code == 403
        assert admin_client.post(f"/admin/sources/backup/{backups[0].pk}/delete/", {"post": "yes"}).status_code == 403
        assert admin_client.post(f"/admin/sources/backup/{backups[0].pk}/change/", {"size": 1}).status_code == 403

    def test_assignments_each_with_a_status_of_its_own_are_listed_in_few_queries_and_read_only(
        self, admin_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        with django_assert_max_num_queries(11):
            [first, *_] = found = listed(admin_client, ASSIGNMENTS)
        assert {str(assignment): assignment.status for assignment in found} == {
            "protected under daily": "protected", "protected under weekly": "protected", "due under daily": "due",
            "failing under daily": "failing", "never under daily": "protected", "never under weekly": "never",
            "overdue under daily": "protected", "overdue under weekly": "overdue", "put off under daily": "waiting",
            "paused under daily": "paused", "retired under daily": "retired",
        }  # fmt: skip
        every = ".".join(f"-{column}" for column in range(1, 9))
        assert len(listed(admin_client, f"{ASSIGNMENTS}?o={every}")) == 11
        assert admin_client.get(f"{ASSIGNMENTS}add/").status_code == 403
        assert admin_client.post(f"{ASSIGNMENTS}{first.pk}/change/", {}).status_code == 403

    def test_its_page_tells_skips_and_when_it_vanished_and_leads_to_its_log(self, admin_client: Client) -> None:
        assignment = Assignment.objects.get(source__name="due")
        vanished = timezone.now() - timedelta(hours=1)
        Assignment.objects.filter(pk=assignment.pk).update(vanished_at=vanished, skips=2)
        found = listed(admin_client, f"{ASSIGNMENTS}?vanished_at__isempty=0")
        assert [each.pk for each in found] == [assignment.pk]
        page = admin_client.get(f"{ASSIGNMENTS}{assignment.pk}/change/").content.decode()
        assert f"{vanished:%Y-%m-%d %H:%M:%S}" in page
        assert (
            f"/admin/jobs/decision/?kind__in=backup%2Cretention%2Ccheck%2Cdrill%2Ccopy&amp;subject__in=assignment%3A{assignment.pk}"
            in page
        )
