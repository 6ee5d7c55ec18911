"""A NUL character in an address: refused in words, and no search of the database fails at it."""

import pytest
from django.test import Client

from tests.api.asking import problem_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "path",
    [
        "/admin/jobs/backlogrecord/?q=%00", "/admin/jobs/backlogrecord/?subject=a%00b", "/admin/auth/user/?q=x%00",
        "/admin/sources/source/%00/change/",
    ],
)  # fmt: skip
def test_a_list_of_the_admin_says_what_is_wrong(path: str, admin_client: Client) -> None:
    answer = admin_client.get(path)
    assert answer.status_code == 400
    assert "NUL character" in answer.content.decode()


def test_below_api_it_has_the_shape_of_every_error(admin_client: Client) -> None:
    answer = admin_client.get("/api/records?error=%00")
    problem_of(answer, 400)


def test_everything_else_goes_through(admin_client: Client) -> None:
    assert admin_client.get("/admin/jobs/backlogrecord/?q=100%25").status_code == 200
