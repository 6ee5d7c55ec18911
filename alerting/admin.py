"""Alerts, the messages about them, and where they go. Routes are set by superusers: their URLs hold tokens."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.decorators import action, display
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminTextInputWidget,
)

from alerting import sending, urls
from alerting.declarations import Route, Routes
from alerting.models import Alert, AlertKind, AlertMessage, AlertRoute
from declarations.surfaces.admin.base import SMALL_TEXT_AREAS, ReadOnlyAdmin, ago, column, link, moment, shortened
from declarations.surfaces.admin.confirmations import AsksFirst, is_confirmed, question
from declarations.surfaces.admin.declared_admin import DeclaredAdmin, DeclaredForm
from jobs.models import Breaker
from sources.models import Assignment

TEST_MEANS = "A test message is sent to it now, from this process. The page waits until it has been taken, or refused."


class RouteForm(DeclaredForm):
    """A route. Its URL is typed in to set it, sealed, and never shown again."""

    service = Routes

    secret_url = forms.CharField(
        label="URL of Apprise",
        required=False,
        max_length=urls.LONGEST,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="For example mailtos://user:password@example.com?to=me@example.org, ntfys://ntfy.sh/topic, "
        "slack://…, jsons://example.com/hook. It is kept sealed, and not shown again. Unchanged if "
        "empty.",
    )
    url = forms.CharField(label="Or where it is found", required=False, widget=UnfoldAdminTextInputWidget)
    kinds = forms.MultipleChoiceField(
        choices=AlertKind.choices, required=False, widget=UnfoldAdminCheckboxSelectMultipleWidget
    )

    class Meta:
        model = AlertRoute
        fields = tuple(Route.model_fields)

    def sent(self) -> dict[str, Any]:
        """The fields, with the URL if one was typed; policies by name."""
        found = super().sent()
        found["policies"] = [str(policy) for policy in found.get("policies") or ()]
        if text := self.cleaned_data.get("secret_url"):
            found["secret_url"] = text
        return found

    def _post_clean(self) -> None:
        super()._post_clean()
        self.cleaned_data["url"] = self.instance.url


@admin.register(AlertRoute)
class AlertRouteAdmin(AsksFirst[Any], DeclaredAdmin):
    """Routes of alerts. A button sends a test."""

    called = "alert route"
    form = RouteForm
    formfield_overrides = SMALL_TEXT_AREAS
    fields = ("name", "secret_url", "url", "enabled", "kinds", "policies", "quiet", "zone", "digest")
    list_display = ("name", "enabled", "shown_kinds", "digest", "last_sent")
    actions_detail = ("send_test",)

    @action(description="Send test message", url_path="test", permissions=["change"], icon="outgoing_mail")
    def send_test(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.ask_or_do_for_one(request, object_id, "Send test message", TEST_MEANS, None)

    def ask_or_do(
        self, request: HttpRequest, rows: QuerySet[AlertRoute], name: str, means: str, verb: Any
    ) -> HttpResponse | None:
        """Ask first; once confirmed, send the test and report its result."""
        route = rows.get()
        if not is_confirmed(request):
            return question(request, name, means, [str(route)])
        problem = sending.send_test(route)
        text = f"Not delivered to {route}: {problem}." if problem else f"Delivered to {route}."
        self.message_user(request, text, messages.ERROR if problem else messages.SUCCESS)
        return None

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """The rows that a deletion takes along, and the stored URLs among them."""
        rows = list(objs)
        shown, *others = super().get_deleted_objects(rows, request)
        sealed = dict.fromkeys(str(each) for row in rows if (each := Routes().sealed_for(row)))
        return [*shown, *(f"its URL, the stored secret {name}" for name in sealed)], *others

    @admin.display(description="alerts")
    def shown_kinds(self, route: AlertRoute) -> str:
        return ", ".join(route.kinds) or "all"

    @admin.display(description="last message", ordering="sent_at")
    def last_sent(self, route: AlertRoute) -> str:
        return ago(route.sent_at) or "none yet"


PAGES = {
    "assignment": "sources_source_change",
    "repository": "sources_repository_change",
    "place": "sources_repository_change",
    "window": "sources_policy_change",
    "copy_window": "sources_policy_change",
    "worker": "jobs_worker_change",
    "schedule": "schedules_schedule_change",
    "unreadable": "schedules_schedule_change",
    "breaker": "jobs_breaker_change",
}
"""Beginning of the subject of an alert → the page of its object."""


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    """Alerts that are open, and those that are over."""

    when_empty = "Problems that need an operator are listed here, and sent to the alert routes, if there are any."
    list_display = ("name", "kind", "state", "shown_text", "shown_since", "shown_end")
    list_filter = ("kind", ("ended_at", admin.EmptyFieldListFilter))
    search_fields = ("name",)
    fields = ("about", "kind", "state", "text", "policy", "shown_since", "shown_end")

    @admin.display(description="about")
    def about(self, alert: Alert) -> str:
        """Its name, with a link to the page of its object, if that has one."""
        what, _, key = alert.subject.partition(":")
        page: Any = key if key.isdecimal() else None
        if what == "breaker":
            page = Breaker.objects.filter(key=key).values_list("pk", flat=True).first()
        elif what == "assignment":
            page = Assignment.objects.filter(pk=page).values_list("source", flat=True).first()
        return link(PAGES[what], page, alert.name) if what in PAGES and page else alert.name

    @display(description="state", label={"open": "danger", "calm": "warning", "over": "success"})
    def state(self, alert: Alert) -> str:
        return "over" if alert.ended_at else "calm" if alert.calm_since else "open"

    shown_text = column("text", "why", shortened, ordered=False)
    shown_since = column("since", "since (UTC)", moment)
    shown_end = column("ended_at", "over (UTC)", moment)


@admin.register(AlertMessage)
class AlertMessageAdmin(ReadOnlyAdmin):
    """Messages to routes, delivered or not."""

    when_empty = "Messages to alert routes are listed here, with whether they arrived."
    list_display = ("title", "route", "state", "shown_made", "attempts", "shown_error")
    list_filter = ("route", ("delivered_at", admin.EmptyFieldListFilter))
    list_select_related = ("route",)
    fields = ("title", "route", "body", "state", "shown_made", "attempts", "error")

    @display(
        description="state",
        label={"delivered": "success", "on its way": "info", "tried again": "warning", "given up": "danger"},
    )
    def state(self, message: AlertMessage) -> str:
        return sending.state_of(message)

    shown_made = column("made_at", "made (UTC)", moment)
    shown_error = column("error", "error", shortened, ordered=False)
