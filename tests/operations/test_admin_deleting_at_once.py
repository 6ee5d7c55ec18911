"""A row is deleted in the admin at the moment in which another session begins to use it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db.models.signals import post_save, pre_delete
from django.test import Client

from delivery.models import Endpoint
from jobs.models import RetryPolicy
from schedules.models import Schedule
from tests.factories import install_presets, make_retry_policy
from tests.operations.test_schedule_admin import form
from tests.schedules.factories import make_endpoint, make_events
from tests.threads import beside
from tests.waiting import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _presets() -> None:
    install_presets()


@pytest.fixture(params=[make_retry_policy, make_endpoint], ids=["retry policy", "endpoint"])
def row(request: Any) -> Iterator[RetryPolicy | Endpoint]:
    """Nobody uses it when it is looked at, and a schedule does before its deletion is committed."""
    make: Callable[[], Any] = request.param
    made = make()
    schedule = make_events(endpoint=make_endpoint(name="another"))
    use = {"retry_policy" if isinstance(made, RetryPolicy) else "endpoint": made}

    def be_used(**_: Any) -> None:
        beside(lambda: Schedule.objects.filter(pk=schedule.pk).update(**use)).result(PATIENCE)

    pre_delete.connect(be_used, sender=type(made))
    yield made
    pre_delete.disconnect(be_used, sender=type(made))


@pytest.mark.parametrize("many", [False, True])
def test_it_stays_and_the_page_says_so(row: RetryPolicy | Endpoint, many: bool, admin_client: Client) -> None:
    address = f"/admin/{row._meta.app_label}/{row._meta.model_name}/" + ("" if many else f"{row.pk}/delete/")
    answer = {"post": "yes", "action": "delete_selected", "_selected_action": [row.pk]}
    page = admin_client.post(address, answer, follow=True).content.decode()
    assert "has come into use meanwhile" in page
    assert "uccessfully deleted" not in page
    assert not LogEntry.objects.exists()
    assert type(row).objects.filter(pk=row.pk).exists()


def test_what_names_a_row_that_goes_meanwhile_is_not_saved_and_the_page_says_so(admin_client: Client) -> None:
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
