"""The records of an assignment end with it, wherever it is deleted."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoCaptureOnCommitCallbacks

from jobs.models import BacklogRecord
from jobs.states import Status
from sources import planning
from sources.fleet import export_fleet
from sources.fleet_import import import_fleet
from sources.models import Assignment
from tests.api.asking import Program
from tests.factories import make_record
from tests.sources.factories import make_assignment

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
    import_fleet({"sources": fleet["sources"]}, "fleet")


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
