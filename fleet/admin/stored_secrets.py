"""Stored secrets: typed in, and never shown again."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminPasswordWidget

from declarations.surfaces.admin.base import WholePage, column, moment
from declarations.surfaces.admin.declared_admin import DeclaredAdmin, DeclaredForm
from external.formatting import some_of
from jobs.conf import PROGRAM
from sealing.declarations import NewStoredSecret
from sealing.models import StoredSecret
from sealing.references import LONGEST_SECRET, PREFIX
from sealing.stored_secrets import StoredSecrets, users_of
from sources.declarations.reach import SET_SECRET

MOST_SHOWN = 20
KEYS = f"A key of several lines is stored by `{PROGRAM} secrets set NAME < FILE`, or over the API."


class StoredSecretForm(DeclaredForm):
    service = StoredSecrets

    value = forms.CharField(
        strip=False,
        max_length=LONGEST_SECRET,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text=f"{NewStoredSecret.model_fields['value'].description}. {KEYS}",
    )

    class Meta:
        model = StoredSecret
        fields = ("name",)

    def sent(self) -> dict[str, Any]:
        return super().sent() | {name: self.cleaned_data[name] for name in ("value",) if name in self.cleaned_data}


@admin.register(StoredSecret)
class StoredSecretAdmin(DeclaredAdmin):
    """Stored secrets. Accounts that may set references may store, replace and delete; no page shows a secret."""

    when_empty = "A password or key that is kept here, sealed, and that sources and repositories refer to by its name."
    form = StoredSecretForm
    list_display = ("name", "changed", "used_by")
    search_fields = ("name",)
    readonly_fields = ("reference", "changed", "used_by")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ("name", "value")
        own = ("reference", "changed", "used_by")
        return (*own, "value") if self.has_change_permission(request, obj) else own

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm(SET_SECRET))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_change_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_change_permission(request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(self.has_view_permission(request))

    @admin.display(description="referred to as")
    def reference(self, secret: StoredSecret) -> str:
        return f"{PREFIX}{secret.name}"

    changed = column("changed_at", "changed (UTC)", moment)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[WholePage]:
        return WholePage

    def complete(self, rows: list[Any]) -> None:
        """Give each stored secret its users: one query for a whole page."""
        users = users_of([row.name for row in rows])
        for row in rows:
            row.users = users[row.name]

    @admin.display(description="used by")
    def used_by(self, secret: Any) -> str:
        if not hasattr(secret, "users"):
            self.complete([secret])
        names = [f"{title} {name}" for title, of_it in secret.users.items() for name in of_it]
        return some_of(names, MOST_SHOWN) or "nothing"
