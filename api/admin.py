"""Tokens of the API: issued on a page that shows the token once, revoked after a question, never edited.

An account that is not a superuser issues tokens in its own name only: another account's might be allowed more.
"""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminIntegerFieldWidget

from api import tokens
from api.models import ApiToken, Scope
from declarations.surfaces.admin.base import ReadOnlyAdmin, ago, column, moment
from declarations.surfaces.admin.confirmations import AsksFirst, asked, is_confirmed, question
from external.formatting import several
from jobs.clock import database_clock

STATE_LABELS = {"valid": "success", "expired": "warning", "revoked": "", "user inactive": "warning"}

USUAL_DAYS, LONGEST_DAYS = 90, 3650

REVOKE_MEANS = "Whatever uses it is refused from now on. A token that was revoked cannot be made valid again."


class ApiTokenForm(forms.ModelForm):  # type: ignore[type-arg]
    """The form for a new token."""

    scopes = forms.MultipleChoiceField(
        choices=[(scope.value, f"{scope.value}: {scope.label}") for scope in Scope],
        initial=[Scope.READ.value],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="What it may be used for, within the permissions of its user.",
    )
    days = forms.IntegerField(
        label="Valid for days",
        min_value=1,
        max_value=LONGEST_DAYS,
        initial=USUAL_DAYS,
        required=False,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="It does not expire if empty.",
    )

    class Meta:
        model = ApiToken
        fields = ("name", "user", "scopes")


@admin.register(ApiToken)
class ApiTokenAdmin(AsksFirst[None], ReadOnlyAdmin):
    """Tokens: who uses the API in whose name, and when last. Revoked from the list and from a token's page."""

    called = "token"
    actions = ("revoke",)
    actions_detail = ("revoke_this",)
    list_display = ("name", "user", "shown_scopes", "state", "shown_expires_at", "shown_used_at")
    list_filter = ("user", ("revoked_at", admin.EmptyFieldListFilter))
    list_select_related = ("user",)
    search_fields = ("name", "user__username")
    fields = (
        "name", "user", "shown_scopes", "state", "shown_created_at", "shown_expires_at", "shown_used_at",
    )  # fmt: skip
    new_fields = ("name", "user", "scopes", "days")

    shown_scopes = column("scopes", "scopes", ", ".join, ordered=False)
    state = column(lambda token: tokens.state_of(token, database_clock()), "state", label=STATE_LABELS)
    shown_created_at = column("created_at", "created (UTC)", moment)
    shown_expires_at = column("expires_at", "expires (UTC)", moment, empty="never")
    shown_used_at = column("used_at", "last used", ago, empty="never")

    def has_revoke_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A token is never edited, so the permission to change covers revoking."""
        return bool(request.user.has_perm("api.change_apitoken"))

    revoke, revoke_this = asked(
        "revoke", "Revoke", REVOKE_MEANS, None, "key_off", "revoke", variant=ActionVariant.DANGER
    )

    def ask_or_do(
        self, request: HttpRequest, rows: QuerySet[ApiToken], name: str, means: str, verb: None
    ) -> HttpResponse | None:
        """The question, or None once the answer was yes and it is done."""
        found = list(rows)
        if not is_confirmed(request):
            return question(request, name, means, found, danger=True)
        for token in found:
            self.log_change(request, token, "Revoked.")
        ended = sum(tokens.revoke(token.pk) for token in found)
        text = f"{several(ended, 'token')} revoked" if ended else "it was revoked before"
        self.message_user(request, f"{name}: {text}.", messages.SUCCESS if ended else messages.WARNING)
        return None

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return bool(request.user.has_perm("api.add_apitoken"))

    def get_readonly_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> tuple[str, ...]:
        return self.fields if obj else ()

    def get_fieldsets(self, request: HttpRequest, obj: ApiToken | None = None) -> Any:
        return ((None, {"fields": self.fields if obj else self.new_fields}),)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is None:
            kwargs |= {"form": ApiTokenForm, "fields": ("name", "user", "scopes")}
        return super().get_form(request, obj, change, **kwargs)

    def changeform_view(self, request: HttpRequest, object_id: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """The page of a token, with one button: the page that answers shows the token, and leads nowhere else."""
        kwargs["extra_context"] = {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().changeform_view(request, object_id, *args[:1], **kwargs)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"user": request.user.pk}

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        users = get_user_model()._default_manager.filter(is_active=True, is_staff=True)
        if not getattr(request.user, "is_superuser", False):
            users = users.filter(pk=request.user.pk or 0)
        return super().formfield_for_foreignkey(db_field, request, **({"queryset": users} | kwargs))

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        """Issue it. Its text goes to the page that answers, and nowhere else."""
        now, days = database_clock(), form.cleaned_data.get("days")
        ends = now + timedelta(days=days) if days else None
        request.issued = tokens.issue(obj.user, obj.name, form.cleaned_data["scopes"], ends, now)  # type: ignore[attr-defined]
        obj.pk = request.issued.token.pk  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: ApiToken, post_url_continue: str | None = None) -> HttpResponse:
        issued: tokens.IssuedToken = request.issued  # type: ignore[attr-defined]
        context = admin.site.each_context(request) | {
            "title": f"{issued.token}: API token",
            "opts": self.opts,
            "issued": issued,
            "until": moment(issued.token.expires_at),
            "address": request.build_absolute_uri("/api/me"),
        }
        return TemplateResponse(request, "api/api_token.html", context)  # the admin's pages are never cached
