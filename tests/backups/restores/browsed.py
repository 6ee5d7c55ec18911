"""Pages of what a point has."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from sources.models import Source
from tests.api.asking import make_user


def page() -> str:
    return reverse("admin:sources_source_restore", args=[Source.objects.get(name="nas").pk])


def look(client: Client, **query: str) -> str:
    answer = client.get(page(), query)
    assert answer.status_code == 200
    text: str = answer.content.decode()
    return text[text.index('id="content') :]


def content(answer: Any) -> bytes:
    return b"".join(answer.streaming_content)


@pytest.fixture
def client_of_staff() -> Client:
    client = Client()
    client.force_login(make_user("view_source", "view_restore", "restore_source"))
    return client
