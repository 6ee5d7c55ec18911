"""People who sign in, and what pages tell them."""

from typing import Any

from django.contrib.messages import get_messages
from django.test import Client

from tests.api.asking import make_user


def staff(*permissions: str) -> Client:
    """The browser of a new member of staff with these permissions, signed in; the first one is `staff 0`."""
    client = Client()
    client.force_login(make_user(*permissions, name="staff"))
    return client


def listed(client: Client, url: str) -> list[Any]:
    response = client.get(url)
    assert response.status_code == 200, response.headers.get("Location")
    return list(response.context["cl"].result_list)


def told(response: Any) -> str:
    """The messages of an answer that leads to another page."""
    assert response.status_code == 302, response.content
    return " ".join(str(message) for message in get_messages(response.wsgi_request))
