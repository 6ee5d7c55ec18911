"""Tables of other packages in the admin's style: accounts, and the rows of django-q2."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.hashers import is_password_usable
from django.contrib.auth.models import Group, User
from django.http import HttpRequest
from django_q.admin import FailAdmin, ScheduleAdmin, TaskAdmin
from django_q.admin import QueueAdmin as DjangoQueueAdmin
from django_q.models import Failure, OrmQ, Schedule, Success
from unfold.forms import AdminPasswordChangeForm, UnfoldReadOnlyPasswordHashWidget, UserChangeForm, UserCreationForm

from declarations.surfaces.admin.base import ReadOnlyAdmin
from declarations.surfaces.admin.row_history import ModelAdmin

for replaced in (User, Group, Schedule, Success, Failure, OrmQ):
    admin.site.unregister(replaced)


class _Rights:
    """A mixin for models that grant rights: only superusers use them, since an account could give itself all other
    rights.
    """

    filter_horizontal: Any = ()  # Django's pair of lists cannot be read aloud, and is wider than a phone
    rights: tuple[str, ...] = ()

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = super().get_readonly_fields(request, obj)  # type: ignore[misc]
        return fields if request.user.is_superuser else (*fields, *self.rights)


class PasswordState(UnfoldReadOnlyPasswordHashWidget):
    """Says whether a password is set. On Django 6.0 the theme has nothing for its box, and to those who may only look
    at an account it shows the hash."""

    read_only = True
    """Django's mark, until 5.2, of a widget that is shown to them, too. The theme still looks for it."""

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        said = "A password is set." if value and is_password_usable(value) else "No password is set."
        return {**super().get_context(name, value, attrs), "summary": [{"label": said}]}


class AccountForm(UserChangeForm):
    """The theme's form of an account, which shows nothing of the password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password"].widget = PasswordState()


@admin.register(User)
class UserAdmin(_Rights, DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    """The accounts that may log in."""

    rights = ("is_staff", "is_superuser", "groups", "user_permissions")
    form = AccountForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_change_permission(request, obj) and _may_act_as(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_act_as(request, obj)


def _may_act_as(request: HttpRequest, account: User | None) -> bool:
    """True if this account's password may be set: not if that gives the signed-in user rights that they lack."""
    if account is None or request.user.is_superuser:
        return True
    return not account.is_superuser and account.get_all_permissions() <= request.user.get_all_permissions()


@admin.register(Group)
class GroupAdmin(_Rights, DjangoGroupAdmin, ModelAdmin):
    """Groups of accounts, with their permissions."""

    rights = ("permissions",)


class PeriodicTaskAdmin(ReadOnlyAdmin):
    """Rows of django-q2, for superusers to look at. They name functions to call: nothing here writes or repeats one."""

    actions = None

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_active and request.user.is_superuser)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)


for model, shown in ((Schedule, ScheduleAdmin), (Success, TaskAdmin), (Failure, FailAdmin), (OrmQ, DjangoQueueAdmin)):
    admin.site.register(model, type(shown.__name__, (PeriodicTaskAdmin, shown), {}))
