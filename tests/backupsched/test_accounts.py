"""The accounts of the admin."""

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from unfold.admin import ModelAdmin

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("model", [User, Group])
def test_accounts_are_shown_in_the_style_of_the_rest(model):
    assert isinstance(admin.site._registry[model], ModelAdmin)


def test_an_account_is_added_and_its_password_changed(admin_client):
    passwords = {"password1": "swordfish-7-lanterns", "password2": "swordfish-7-lanterns"}
    form = {"username": "anna", "usable_password": "true", **passwords}
    assert admin_client.post("/admin/auth/user/add/", form).status_code == 302
    anna = User.objects.get(username="anna")
    changed = {"password1": "another-9-lanterns", "password2": "another-9-lanterns"}
    assert admin_client.post(f"/admin/auth/user/{anna.pk}/password/", changed).status_code == 302
    anna.refresh_from_db()
    assert anna.check_password("another-9-lanterns")


def test_a_person_without_rights_sees_no_source(client):
    client.force_login(User.objects.create_user("guest", is_staff=True))
    assert client.get("/admin/sources/source/").status_code == 403
    assert client.get("/admin/").status_code == 200
