"""The records of an assignment end with it, wherever it is deleted."""

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from fleet.files.apply import apply_fleet
from fleet.files.schema import export_fleet
from jobs.models import BacklogRecord
from jobs.states import Status
from sources import planning
from sources.models import Assignment, Backup, Copy, Repository
from tests.api.asking import Program, make_user
from tests.api.sources.making import add_backup
from tests.factories import make_record
from tests.sources.factories import make_assignment, make_policy, make_source

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]


def over_the_api(row: Assignment, client: Client) -> None:
    assert Program().delete(f"assignments/{row.pk}").status_code == 204


def on_its_page(row: Assignment, client: Client) -> None:
    assert client.post(reverse("admin:sources_assignment_delete", args=[row.pk]), {"post": "yes"}).status_code == 302


def on_the_page_of_its_source(row: Assignment, client: Client) -> None:
    page = reverse("admin:sources_source_change", args=[row.source_id])
    form = client.get(page).context["adminform"].form
    fields = {name: value for name, value in form.initial.items() if isinstance(value, str | int)}
    ids = {"id": row.pk, "source": row.source_id, "policy": row.policy_id, "DELETE": "on"}
    counts = {"assignments-TOTAL_FORMS": 1, "assignments-INITIAL_FORMS": 1}
    sent = fields | counts | {f"assignments-0-{name}": value for name, value in ids.items()}
    assert client.post(page, sent).status_code == 302


def in_a_fleet_file(row: Assignment, client: Client) -> None:
    fleet = export_fleet()
    fleet["sources"][0]["policies"] = []
    apply_fleet({"sources": fleet["sources"]}, "fleet")


@pytest.mark.parametrize("delete", [over_the_api, on_its_page, on_the_page_of_its_source, in_a_fleet_file])
def test_its_records_end(
    admin_client: Client,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
    delete: Callable[[Assignment, Client], None],
) -> None:
    row, other = make_assignment(), planning.subject_of(0)
    subject = planning.subject_of(row.pk)
    waiting = make_record(Status.WAITING, kind=planning.KIND, subject=subject)
    ready = make_record(Status.READY, kind=planning.CHECK, subject=subject)
    running = make_record(Status.RUNNING, kind=planning.DRILL, subject=subject)
    spared = make_record(Status.WAITING, kind=planning.KIND, subject=other)
    with django_capture_on_commit_callbacks(execute=True):
        delete(row, admin_client)
    assert not Assignment.objects.exists()
    found = BacklogRecord.objects.in_bulk()
    for record in (waiting, ready):
        assert found[record.pk].status == Status.CANCELLED
        assert found[record.pk].last_error == "its assignment was deleted"
    assert found[running.pk].cancel_requested_at is not None
    assert found[spared.pk].status == Status.WAITING


def text_of(answer: Any) -> str:
    """With backticks around what the page shows as code."""
    return re.sub("</?code>", "`", unescape(answer.content.decode()))


@pytest.mark.parametrize(
    ("fields", "how"),
    [
        ({}, "by hand: the folder /srv/vault/nas-1/daily"),
        ({"remote": {"type": "s3"}, "location": "bucket"}, "`rclone purge` of the folder nas-1/daily, through the"),
        ({"format": "restic", "encrypted": True, "key": "env:K"}, "snapshots --tag assignment=nas-1/daily` lists them"),
    ],
)
def test_its_page_says_which_files_stay_and_how_they_are_deleted(
    admin_client: Client, fields: dict[str, Any], how: str
) -> None:
    offsite = Repository.objects.create(name="offsite", location="/srv/offsite")
    vault = Repository.objects.create(**{"name": "vault", "location": "/srv/vault"} | fields)
    row = make_assignment(make_policy(repository=vault), make_source(name="my nas"), directory="nas-1/daily")
    page = reverse("admin:sources_assignment_delete", args=[row.pk])
    assert "no retention removes them" not in admin_client.get(page).content.decode()
    add_backup(row)
    Copy.objects.create(assignment=row, repository=offsite, planned_at=timezone.now(), points=["20260301T090000Z"])
    text = text_of(admin_client.get(page))
    assert text.count("no retention removes them") == 2
    assert "sources remove 'my nas' --with-backups`" in text
    assert how in text
    chosen = {"action": "delete_selected", "_selected_action": row.pk}
    assert how in text_of(admin_client.post(reverse("admin:sources_assignment_changelist"), chosen))
    client = Client()
    client.force_login(make_user("view_assignment", "delete_assignment"))
    on_its_page(row, client)
    assert not Backup.objects.exists()
