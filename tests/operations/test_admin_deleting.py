"""Deleting in the admin: what stands against it is told in words, also what has come to use a row meanwhile."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db.models.signals import post_save, pre_delete
from django.test import Client

from audit.models import AuditEntry
from declarations.surfaces.admin.declared_admin import DeclaredAdmin
from delivery.models import Endpoint
from jobs.models import BacklogRecord, RetryPolicy, Throttle
from jobs.states import Status
from schedules.models import Schedule
from tests.factories import NOON, install_presets, make_record, make_retry_policy, make_throttle
from tests.jobs.throttling.rated import ready
from tests.operations.schedule_forms import form
from tests.schedules.factories import make_endpoint, make_events
from tests.threads import beside
from tests.waiting import PATIENCE

pytestmark = pytest.mark.django_db

DJANGO_SAYS = "protected related objects"
ASKS = "Are you sure"


def a_throttle_of_records() -> Throttle:
    throttle = make_throttle(4)
    ready(throttle, 2)
    return throttle


def a_schedule() -> Schedule:
    schedule = make_events(name="busy")
    make_record(Status.READY, origin=schedule, trigger_at=NOON)
    return schedule


def address_of(row: Any) -> str:
    return f"/admin/{row._meta.app_label}/{row._meta.model_name}/"


def chosen(*rows: Any) -> dict[str, Any]:
    return {"action": "delete_selected", "_selected_action": [row.pk for row in rows]}


def test_one_in_use_keeps_those_that_are_chosen_with_it_and_what_is_free_is_asked_about_and_goes(
    admin_client: Client,
) -> None:
    used, free = a_throttle_of_records(), make_throttle(5)
    page = admin_client.post(address_of(used), chosen(used, free)).content.decode()
    assert "They cannot all be deleted now, and none of them is:" in page
    assert DJANGO_SAYS not in page
    assert ASKS in admin_client.get(f"{address_of(free)}{free.pk}/delete/").content.decode()
    assert ASKS in admin_client.post(address_of(free), chosen(free)).content.decode()
    BacklogRecord.objects.all().delete()
    admin_client.post(address_of(used), chosen(used) | {"post": "yes"})
    admin_client.post(f"{address_of(free)}{free.pk}/delete/", {"post": "yes"})
    assert not Throttle.objects.exists()


@pytest.mark.parametrize("many", [False, True], ids=["by its page", "from the list"])
def test_what_was_emitted_since_the_page_was_looked_at_keeps_a_schedule(
    many: bool, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = a_schedule()
    monkeypatch.setattr(DeclaredAdmin, "obstacles_to_deleting", lambda admin, rows: [])
    address = address_of(row) + ("" if many else f"{row.pk}/delete/")
    page = admin_client.post(address, chosen(row) | {"post": "yes"}, follow=True).content.decode()
    assert "busy cannot be deleted now: 1 of its events" in page
    assert Schedule.objects.exists()


@pytest.mark.django_db(transaction=True)
class TestAtTheSameMoment:
    @pytest.fixture(params=[make_retry_policy, make_endpoint], ids=["retry policy", "endpoint"])
    def row(self, request: Any) -> Iterator[RetryPolicy | Endpoint]:
        """Nobody uses it when it is looked at, and a schedule does before its deletion is committed."""
        install_presets()
        made = request.param()
        schedule = make_events(endpoint=make_endpoint(name="another"))
        use = {"retry_policy" if isinstance(made, RetryPolicy) else "endpoint": made}

        def be_used(**_: Any) -> None:
            beside(lambda: Schedule.objects.filter(pk=schedule.pk).update(**use)).result(PATIENCE)

        pre_delete.connect(be_used, sender=type(made))
        yield made
        pre_delete.disconnect(be_used, sender=type(made))

    @pytest.mark.parametrize("many", [False, True])
    def test_what_comes_into_use_stays_and_the_page_says_so(
        self, row: RetryPolicy | Endpoint, many: bool, admin_client: Client
    ) -> None:
        address = address_of(row) + ("" if many else f"{row.pk}/delete/")
        page = admin_client.post(address, chosen(row) | {"post": "yes"}, follow=True).content.decode()
        assert "has come into use in the meantime" in page
        assert "uccessfully deleted" not in page
        assert not AuditEntry.objects.filter(verb="deleted").exists()
        assert type(row).objects.filter(pk=row.pk).exists()

    def test_what_names_a_row_that_goes_is_not_saved_and_the_page_says_so(self, admin_client: Client) -> None:
        install_presets()
        endpoint = make_endpoint()

        def let_it_go(**_: Any) -> None:
            beside(endpoint.delete).result(PATIENCE)

        post_save.connect(let_it_go, sender=Schedule)
        try:
            page = admin_client.post("/admin/schedules/schedule/add/", form(endpoint=str(endpoint.pk)))
        finally:
            post_save.disconnect(let_it_go, sender=Schedule)
        assert (page.status_code, "deleted or changed" in page.content.decode()) == (409, True)
        assert not Schedule.objects.exists()
