"""People who sign in."""

from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client


def staff(*permissions: str) -> Client:
    """The browser of a new member of staff with these permissions, signed in; the first one is `staff 0`."""
    user = User.objects.create_user(f"staff {User.objects.count()}", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def listed(client: Client, url: str) -> list[Any]:
    response = client.get(url)
    assert response.status_code == 200, response.headers.get("Location")
    return list(response.context["cl"].result_list)
