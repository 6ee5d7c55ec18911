"""Attacks that must go on to fail, on whatever pages there are."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.db import DatabaseError, models, transaction
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from tests.backupsched.one_of_each import make_one_of_each

SCRIPT = "<script>x"
"""Short: it has to fit."""

OURS = [model for model in admin.site._registry if model._meta.app_label in ("jobs", "sources")]


def write_everywhere(model: Any) -> None:
    """Scripts into all text that a row of `model` can hold, past its forms, as agents, engines and people might."""
    for field in model._meta.concrete_fields:
        if isinstance(field, models.CharField | models.TextField | models.JSONField) and not field.choices:
            value: object = SCRIPT
            if isinstance(field, models.JSONField):
                value = [SCRIPT] if field.name == "addresses" else {SCRIPT: SCRIPT}
            if field.name in ("window", "excluded_dates"):  # pages rely on their shape
                continue
            try:
                with transaction.atomic():
                    model.objects.update(**{field.name: value})
            except DatabaseError:  # the database does not take it there, in a view or against a constraint
                continue


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize("model", OURS, ids=lambda model: model._meta.model_name)
def test_no_page_runs_what_a_row_says(model, admin_client):
    make_one_of_each()
    write_everywhere(model)
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    pages = [reverse(f"{name}_changelist")]
    pages += [
        reverse(f"{name}_{page}", args=[row.pk]) for row in model.objects.all()[:1] for page in ("change", "history")
    ]
    for page in pages:
        answer = admin_client.get(page)
        assert answer.status_code == 200, page
        assert SCRIPT not in answer.content.decode(), page


def views(patterns: list[Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        path = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from views(pattern.url_patterns, path)
        elif isinstance(pattern, URLPattern):
            yield path, pattern.callback


def test_no_page_takes_a_form_of_another_site():
    """The API's operations ask for the token themselves: tests/api/sources/test_permissions.py."""
    exempt = [path for path, view in views(get_resolver().url_patterns) if getattr(view, "csrf_exempt", False)]
    assert [path for path in exempt if not path.startswith("api/")] == []
    assert exempt
