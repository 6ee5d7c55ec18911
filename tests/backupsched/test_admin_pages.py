"""Values in rows and addresses are data: no page of the admin runs them, or breaks by them.

`BACKUPSCHED_ADMIN_FUZZ=500` asks each list so many times instead, of more parameters and values, in random order.
"""

import os
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.template.response import SimpleTemplateResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from backupsched import urls  # noqa: F401 - loads the pages of the admin
from tests.backupsched.one_of_each import SCRIPT, make_one_of_each, write_everywhere
from tests.backupsched.role_table import OURS
from tests.sources.factories import make_source

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


@pytest.fixture
def is_drawn(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Empty it, and no page is drawn. What stands in an address decides which rows a list has, not how it is drawn."""
    drawn, draw = [True], SimpleTemplateResponse.render

    def render(page: SimpleTemplateResponse) -> SimpleTemplateResponse:
        page.content = page.content if page.is_rendered else b""
        return page

    monkeypatch.setattr(SimpleTemplateResponse, "render", lambda page: (draw if drawn else render)(page))
    return drawn


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("model", list(admin.site._registry), ids=lambda model: model._meta.label_lower)
def test_no_page_runs_what_a_row_says_and_no_list_ends_in_a_server_error(
    model: Any, admin_client: Client, is_drawn: list[bool]
) -> None:
    admin_client.raise_request_exception = False
    make_one_of_each()
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    pages = [reverse(f"{name}_changelist")]
    if model._meta.app_label in OURS:
        write_everywhere(model)
        first = model._default_manager.values_list("pk", flat=True)[:1]
        pages += [reverse(f"{name}_{page}", args=[key]) for key in first for page in ("change", "history")]
    for page in pages:
        answer = admin_client.get(page)
        assert answer.status_code == 200, page
        assert SCRIPT not in answer.content.decode(), page

    pairs = [(name, value) for name in dict.fromkeys(parameters(admin.site._registry[model])) for value in ODD]
    if AT_LENGTH:
        pairs = random.Random(SEED).sample(pairs, min(AT_LENGTH, len(pairs)))
    else:
        is_drawn.clear()

    answers = {pair: admin_client.get(pages[0], dict([pair])) for pair in pairs}
    assert {pair: answer.status_code for pair, answer in answers.items() if answer.status_code >= 500} == {}


@pytest.mark.django_db
def test_the_path_of_a_page_has_the_name_of_a_row_as_it_is_written(admin_client: Client) -> None:
    source = make_source(name="laptop-anna")
    page = admin_client.get(f"/admin/sources/source/{source.pk}/change/").content.decode()
    assert "laptop-anna" in page
    assert "Laptop-anna" not in page
    assert re.findall(r'tracking-tight">\s*(.*?)\s*</', page) == ["Sources", "laptop-anna"]
    page = admin_client.get("/admin/jobs/throttle/").content.decode()
    assert re.findall(r'tracking-tight">\s*(.*?)\s*</', page) == ["Backlog", "Throttles"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "label"),
    [("/admin/delivery/endpoint/add/?kind=http_callback", "URL"), ("/admin/sources/policy/add/", "Ping URL")],
)
def test_a_label_writes_url_as_it_is_written(admin_client: Client, path: str, label: str) -> None:
    labels = [text.strip() for text in re.findall(r"<label[^>]*>([^<]*)", admin_client.get(path).content.decode())]
    assert label in labels
    assert [each for each in labels if "url" in each.lower() and "URL" not in each] == []


def views(patterns: list[Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        path = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from views(pattern.url_patterns, path)
        elif isinstance(pattern, URLPattern):
            yield path, pattern.callback


def test_no_page_takes_a_form_of_another_site() -> None:
    """The API's operations ask for the token themselves: tests/api/test_keys_and_scopes.py."""
    exempt = [path for path, view in views(get_resolver().url_patterns) if getattr(view, "csrf_exempt", False)]
    assert [path for path in exempt if not path.startswith("api/")] == []
    assert exempt
