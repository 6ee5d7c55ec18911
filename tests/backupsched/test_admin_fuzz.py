"""What stands in an address is data: every list of the admin is asked with every parameter, and odd values.

`BACKUPSCHED_ADMIN_FUZZ=500` asks each list so many times instead, of more parameters and values, in random order.
"""

import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.urls import reverse

from tests.backupsched.one_of_each import make_one_of_each

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

AT_LENGTH = int(os.environ.get("BACKUPSCHED_ADMIN_FUZZ") or 0)
SEED = 20261122
ODD = ["99999999", *(["", "x", "-1", "9" * 30, "1e999", "2026-13-45", "'", "1,2", "[", "\x00"] if AT_LENGTH else [])]
LOOKUPS = ["", "__year", *(["__exact", "__isnull", "__gte", "__in", "__regex", "__nothing"] if AT_LENGTH else [])]
ADMIN_OWN = ["o", "p", "all", "q", "e", "_popup", "_to_field", "_changelist_filters", "unknown"]


def parameters(model_admin: Any) -> Iterator[str]:
    yield from ADMIN_OWN
    for field in model_admin.model._meta.get_fields():
        for lookup in LOOKUPS:
            yield field.name + lookup
    for each in model_admin.list_filter:
        for part in each if isinstance(each, tuple) else (each,):
            yield getattr(part, "parameter_name", None) or str(part)


@pytest.mark.parametrize("model", list(admin.site._registry), ids=lambda model: model._meta.label_lower)
def test_no_list_ends_in_a_server_error(model, admin_client):
    admin_client.raise_request_exception = False
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    make_one_of_each()
    pairs = [(name, value) for name in dict.fromkeys(parameters(admin.site._registry[model])) for value in ODD]
    if AT_LENGTH:
        pairs = random.Random(SEED).sample(pairs, min(AT_LENGTH, len(pairs)))
    failed, statuses = {}, Counter[int]()
    for name, value in pairs:
        answer = admin_client.get(address, {name: value})
        statuses[answer.status_code] += 1
        if answer.status_code >= 500:
            failed[name, value] = repr(answer.exc_info[1]) if getattr(answer, "exc_info", None) else answer.status_code
    print(f"{model._meta.label_lower}: {statuses}")  # noqa: T201 - what pytest -s shows
    assert failed == {}
