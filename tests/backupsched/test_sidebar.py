"""The menu of the admin."""

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

pytestmark = pytest.mark.django_db


def links(client: Client) -> set[str]:
    groups = client.get("/admin/").context["sidebar_navigation"]
    return {str(item["link"]) for group in groups for item in group["items"]}


def test_begins_with_what_is_backed_up_and_leads_to_every_table_and_page(admin_client):
    found = links(admin_client)
    assert {"/admin/sources/source/", "/admin/jobs/breaker/", "/admin/jobs/sweep/", "/admin/auth/user/"} <= found
    assert {"/admin/jobs/backlogrecord/dead-letters/", "/backoff/"} <= found
    assert [link for link in found if admin_client.get(link).status_code != 200] == []
    groups = admin_client.get("/admin/").context["sidebar_navigation"]
    assert [str(group["items"][0]["link"]).split("/")[2] for group in groups] == [
        "sources", "schedules", "jobs", "delivery", "api", "django_q", "auth",
    ]  # fmt: skip


def test_leads_no_account_where_it_may_not_go(client):
    onlooker = User.objects.create_user("onlooker", is_staff=True)
    onlooker.user_permissions.add(Permission.objects.get(codename="view_source"))
    client.force_login(onlooker)
    assert links(client) == {"/admin/sources/source/"}


def test_marks_the_page_that_is_open_and_no_other(admin_client):
    records = "/admin/jobs/backlogrecord/"
    for path in (records, f"{records}dead-letters/", f"{records}?events=yes"):
        groups = admin_client.get(path).context["sidebar_navigation"]
        assert [item["link"] for group in groups for item in group["items"] if item["active"]] == [path]
