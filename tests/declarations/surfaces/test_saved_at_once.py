"""Two operators save the form of one row within milliseconds, each on a connection of their own."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse

from jobs.models import Throttle
from schedules.models import Schedule
from sources.models import Source
from tests.factories import make_throttle
from tests.forms import Inputs
from tests.sources.factories import make_policy, make_source
from tests.threads import a_lock_is_waited_for, beside
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.mark.parametrize(
    ("make", "model", "field", "first", "second"),
    [
        (lambda: make_throttle(5), Throttle, "max_in_flight", 9, "7"),
        (make_policy, Schedule, "priority", 3, "4"),  # a policy is one with its schedule
        (lambda: make_source(kind="sftp", address="192.0.2.7"), Source, "address", "192.0.2.8", "192.0.2.9"),
    ],
)
def test_the_second_waits_for_the_first_and_does_not_revert_it(
    admin_client: Client, make: Callable[[], Any], model: Any, field: str, first: Any, second: str
) -> None:
    row = make()
    url = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
    inputs = Inputs(admin_client.get(url).content.decode()).found
    with transaction.atomic():
        model.objects.update(**{field: first})
        saved = beside(lambda: admin_client.post(url, inputs | {field: second}))
        eventually(a_lock_is_waited_for)
    form = saved.result(PATIENCE).context["adminform"].form
    assert form.non_field_errors()[0].startswith("Changed by another since this page was opened: "), form.errors
    assert model.objects.values_list(field, flat=True).get() == first
