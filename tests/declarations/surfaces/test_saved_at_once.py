"""Two operators save the form of one row within milliseconds, each on a connection of their own."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.db import transaction
from django.test import Client
from django.urls import reverse

from backupsched import urls  # noqa: F401 - loads the pages of the admin
from tests.factories import make_throttle
from tests.forms import Inputs
from tests.sources.factories import make_policy, make_source
from tests.threads import a_lock_is_waited_for, beside
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.mark.parametrize(
    ("make", "field", "first", "second"),
    [
        (lambda: make_throttle(5), "max_in_flight", 9, "7"),
        (make_policy, "priority", 3, "4"),  # a policy is one with its schedule
        (lambda: make_source(kind="local", path="/srv"), "name", "first", "second"),
    ],
)
def test_the_second_waits_for_the_first_and_does_not_revert_it(
    admin_client: Client, make: Callable[[], Any], field: str, first: Any, second: str
) -> None:
    row = make()
    page: Any = admin.site._registry[type(row)]
    url = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
    inputs = Inputs(admin_client.get(url).content.decode()).found
    with transaction.atomic():
        page.form.service().edit(row, {field: first})
        saved = beside(lambda: admin_client.post(url, inputs | {field: second}))
        eventually(a_lock_is_waited_for)
    refused = saved.result(PATIENCE)
    assert refused.status_code == 200
    assert "Changed by another since this page was opened: " in str(refused.context["adminform"].form.errors)
    assert page.form.service().values(type(row).objects.get())[field] == first
