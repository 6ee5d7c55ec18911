"""The accounts of the admin: in its style, and without a way to more rights."""

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from unfold.admin import ModelAdmin

from backupsched import urls  # noqa: F401 - loads the pages of the admin
from tests.people import staff

pytestmark = pytest.mark.django_db

FORM = {"is_active": "on", "is_staff": "on", "date_joined_0": "2026-01-01", "date_joined_1": "00:00"}
PASSWORD = "swordfish-7-lanterns"
PASSWORDS = {"usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}


def test_an_account_is_added_and_its_password_changed_in_the_style_of_the_rest(admin_client: Client) -> None:
    assert all(isinstance(admin.site._registry[model], ModelAdmin) for model in (User, Group))
    assert admin_client.post("/admin/auth/user/add/", PASSWORDS | {"username": "anna"}).status_code == 302
    anna = User.objects.get(username="anna")
    changed = {"password1": "another-9-lanterns", "password2": "another-9-lanterns"}
    assert admin_client.post(f"/admin/auth/user/{anna.pk}/password/", changed).status_code == 302
    anna.refresh_from_db()
    assert anna.check_password("another-9-lanterns")


def test_an_account_that_may_edit_accounts_gives_neither_itself_nor_its_group_rights() -> None:
    client = staff("change_user", "view_user", "change_group", "view_group")
    me = User.objects.get(username="staff 0")
    form = FORM | {"username": "anna", "is_superuser": "on"}
    assert client.post(f"/admin/auth/user/{me.pk}/change/", form).status_code == 302
    me.refresh_from_db()
    assert (me.username, me.is_superuser) == ("anna", False)
    group = me.groups.create(name="ours")
    form = {"name": "ours", "permissions": [Permission.objects.get(codename="change_source").pk]}
    assert client.post(f"/admin/auth/group/{group.pk}/change/", form).status_code == 302
    assert not group.permissions.exists()


@pytest.mark.parametrize("is_superuser", [True, False])
def test_it_sets_no_password_of_an_account_with_more_rights(is_superuser: bool) -> None:
    client = staff("change_user", "view_user")
    other = User.objects.create_user("other", is_staff=True, is_superuser=is_superuser)
    if not is_superuser:
        other.user_permissions.add(Permission.objects.get(codename="change_source"))
    assert client.post(f"/admin/auth/user/{other.pk}/password/", PASSWORDS).status_code == 403
    other.refresh_from_db()
    assert not other.check_password(PASSWORD)


@pytest.mark.parametrize(("password", "said"), [(PASSWORD, "A password is set."), (None, "No password is set.")])
def test_a_page_says_whether_an_account_has_a_password_and_shows_nothing_of_it(
    admin_client: Client, password: str | None, said: str
) -> None:
    """Shown to those who may change the account, and to those who may look at it."""
    anna = User.objects.create_user("anna", password=password)
    for client in (admin_client, staff("view_user")):
        page = client.get(f"/admin/auth/user/{anna.pk}/change/").content.decode()
        assert said in page
        assert anna.password not in page
        assert anna.password[-8:] not in page
