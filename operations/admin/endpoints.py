"""Endpoints: where events are delivered, with which secrets, whether it works, and the buttons of one."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldBooleanWidget

from declarations.surfaces.admin.base import SMALL_TEXT_AREAS, CompletingAdmin, anchor, column, foldable, moment
from declarations.surfaces.admin.confirmations import AsksFirst, is_confirmed, question, shown_once
from declarations.surfaces.admin.declared_admin import DeclaredAdmin, DeclaredForm, duration_fields
from declarations.surfaces.admin.tables import table
from delivery import addresses, declarations, signing
from delivery.declarations import LONGEST_AUTHORIZATION
from delivery.endpoints import Endpoints, endpoint_facts, secret_facts
from delivery.models import Endpoint, EndpointKind
from external.durations import span
from external.formatting import several
from jobs.models import Breaker
from operations.admin.breakers import link_to
from operations.endpoint_tests import describe, send_test, wait_for_test

WAITED_FOR = 3.0
"""Seconds for which the page of an endpoint waits for the result of a test event. A web server has few threads."""

ROTATE_MEANS = (
    f"A new secret signs from now on, in addition to those in use, which retire in {span(signing.KEEP_FOR)}. Give it "
    "to the receiver before then: a signature by either is enough. It is shown once, on the next page."
)
REPLACE_MEANS = (
    "A new secret signs from now on, and those in use sign no longer. Do this if a secret has leaked. Until the "
    "receiver has the new one, it refuses callbacks. The new secret is shown once, on the next page."
)
TEST_MEANS = (
    'A worker delivers one event to it, with "schedule": "test" and the payload {"test": true}. If that fails it is '
    "not tried again."
)
IS_SIGNED = "It is signed as all are."
IS_NOT_SIGNED = "Its callbacks are not signed: there is no signing secret in use. Rotate secret makes one."

SECRET_COLUMNS = ("secret", "made (UTC)", "age", "state", "retires (UTC)")

WHERE: tuple[str, ...] = ("name", "kind", "url")
OF_CALLBACKS: tuple[str, ...] = ("headers", "follow_redirects")
AUTHORIZATION: tuple[str, ...] = ("authorization_is", "authorization", "remove_authorization")
OF_QUEUES: tuple[str, ...] = ("region", "message_group")
TIMES: tuple[str, ...] = ("connect_timeout", "timeout")

Verb = Callable[[HttpRequest, Endpoint], HttpResponse | None]


class EndpointForm(DeclaredForm):
    """An endpoint with its Authorization: typed in to set it, left empty to keep it, and never shown again."""

    service = Endpoints

    authorization = forms.CharField(
        required=False,
        strip=True,
        max_length=LONGEST_AUTHORIZATION,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="The value of the header, such as Bearer …, sent with each callback. Unchanged if empty.",
    )
    remove_authorization = forms.BooleanField(
        required=False, widget=UnfoldBooleanWidget, help_text="Send none any more."
    )

    class Meta:
        model = Endpoint
        fields = tuple(declarations.EndpointDeclaration.model_fields)
        labels = {"url": "URL"}
        field_classes = duration_fields(declarations.EndpointDeclaration)

    def clean(self) -> None:
        if self.cleaned_data.get("authorization") and self.cleaned_data.get("remove_authorization"):
            self.add_error("authorization", "is both given and to be removed: choose one")

    def sent(self) -> dict[str, Any]:
        """The values to send, with the Authorization when it is set or removed."""
        text, removed = self.cleaned_data.get("authorization"), self.cleaned_data.get("remove_authorization")
        return super().sent() | ({"authorization": text} if text or removed else {})


def _of_callbacks(show: Callable[[Endpoint], str]) -> Callable[[Endpoint], str]:
    """Make a column show a dash for a queue, which has no value there."""
    return lambda endpoint: "-" if endpoint.kind == EndpointKind.SQS_MESSAGE else show(endpoint)


def _secrets(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [secret_facts(secret, timezone.now()) for secret in endpoint.signing_secrets.all()]


def _secrets_in_use(endpoint: Endpoint) -> str:
    in_use = sum(facts["state"] != "retired" for facts in _secrets(endpoint))
    return several(in_use, "secret") if in_use else "nothing"


def _table_of_secrets(endpoint: Endpoint) -> SafeString | str:
    rows = (
        (f"#{facts['id']}", moment(facts["created_at"]), span(facts["age"]), facts["state"],
         moment(facts["retires_at"]) or "never")
        for facts in _secrets(endpoint)
    )  # fmt: skip
    return table(SECRET_COLUMNS, rows, empty="None, so callbacks are not signed. Rotate secret makes the first one.")


def _schedules(endpoint: Any) -> SafeString | str:
    url = f"{reverse('admin:schedules_schedule_changelist')}?endpoint__id__exact={endpoint.pk}"
    return anchor(url, endpoint.schedule_count) if endpoint.schedule_count else "0"


def _used_by(endpoint: Any) -> SafeString | str:
    _, _, word = several(endpoint.schedule_count, "schedule").partition(" ")
    return format_html("{} {}", _schedules(endpoint), word) if endpoint.schedule_count else "no schedule"


@admin.register(Endpoint)
class EndpointAdmin(AsksFirst[Verb], CompletingAdmin, DeclaredAdmin):
    """An endpoint: its form has the fields of its kind, its page the buttons for its secrets and for a test."""

    when_empty = "An endpoint is where events are delivered: a URL that is called, or a queue of SQS."
    called = "endpoint"
    adds = "breaker"
    form = EndpointForm
    formfield_overrides = SMALL_TEXT_AREAS
    list_display = ("name", "kind", "shown_url", "authorization_is", "secrets", "used", "host")
    list_filter = ("kind",)
    search_fields = ("name", "url")
    ordering = ("name",)
    readonly_fields = ("authorization_is", "signing_secrets", "host", "used_by")
    actions_detail = ("rotate_secret", "replace_secret", "test")

    shown_url = column("url", "URL", foldable)
    authorization_is = column(
        _of_callbacks(lambda endpoint: "set" if endpoint.sealed_authorization else "not set"), "Authorization"
    )
    secrets = column(_of_callbacks(_secrets_in_use), "signed with")
    signing_secrets = column(_table_of_secrets, "signing secrets")
    # called `schedules`, the list would be sorted by the related rows, with each endpoint once per row
    used = column(_schedules, "schedules", ordered="schedule_count")
    used_by = column(_used_by, "used by")

    @admin.display(description="breaker")
    def host(self, endpoint: Endpoint) -> SafeString | str:
        """The state of its breaker, as a link to the breaker's page."""
        return link_to(self.added(endpoint))

    def complete(self, rows: list[Any]) -> None:
        """Give each endpoint the breaker of its host."""
        found = {breaker.key: breaker for breaker in Breaker.objects.filter(key__in=map(_key, rows))}
        for endpoint in rows:
            endpoint.breaker = found.get(_key(endpoint))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Endpoint]:
        found: QuerySet[Endpoint] = super().get_queryset(request)
        return found.annotate(schedule_count=Count("schedules"))

    def get_readonly_fields(self, request: HttpRequest, obj: Endpoint | None = None) -> tuple[str, ...]:
        """Make the kind of an existing endpoint read-only: its schedules and their events are of that kind."""
        return (*self.readonly_fields, "kind") if obj else self.readonly_fields

    def get_fieldsets(self, request: HttpRequest, obj: Endpoint | None = None) -> Any:
        """The fields of its kind on the page of an existing endpoint; all fields for a new one."""
        callbacks = [
            ("HTTP callbacks", {"fields": OF_CALLBACKS}),
            ("Authorization", {"fields": AUTHORIZATION if obj else AUTHORIZATION[1:2]}),
        ]
        queues = [("SQS messages", {"fields": OF_QUEUES})]
        where, times = (None, {"fields": WHERE}), ("Timeouts", {"fields": TIMES})
        if obj is None:
            return (where, *callbacks, *queues, times)
        about = ("About it", {"fields": ("host", "used_by")})
        if obj.kind == EndpointKind.SQS_MESSAGE:
            return (where, *queues, times, about)
        return (where, *callbacks, ("Signing secrets", {"fields": ("signing_secrets",)}), times, about)

    @action(description="Rotate secret", url_path="rotate", permissions=["change"], icon="autorenew")
    def rotate_secret(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.ask_or_do_for_one(request, object_id, "Rotate secret", ROTATE_MEANS, self._rotate)

    @action(description="Replace secret at once", url_path="replace", permissions=["change"], icon="key_off")
    def replace_secret(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.ask_or_do_for_one(request, object_id, "Replace secret at once", REPLACE_MEANS, self._replace)

    @action(description="Send test event", url_path="test", permissions=["change"], icon="outgoing_mail")
    def test(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.ask_or_do_for_one(request, object_id, "Send test event", TEST_MEANS, self._test)

    def ask_or_do(
        self, request: HttpRequest, rows: QuerySet[Endpoint], name: str, means: str, verb: Verb
    ) -> HttpResponse | None:
        """The question; once the answer was yes, the result of the verb."""
        endpoint = rows.get()
        if is_confirmed(request):
            return verb(request, endpoint)
        if verb == self._test and endpoint.kind == EndpointKind.HTTP_CALLBACK:  # messages of queues never are
            means = f"{means} {IS_SIGNED if endpoint_facts(endpoint)['secrets'] else IS_NOT_SIGNED}"
        return question(request, name, means, [f"{endpoint}: {endpoint.url}"], danger=verb == self._replace)

    def _rotate(self, request: HttpRequest, endpoint: Endpoint, keep_for: float = signing.KEEP_FOR) -> Any:
        try:
            secret = signing.rotate(endpoint, keep_for)
        except ValueError as error:
            self.message_user(request, f"{error}.", messages.WARNING)
            return None
        self.log_change(request, endpoint, f"New signing secret; those before it sign for {span(keep_for)} more")
        text = f"The new signing secret of {endpoint}. It is not shown again: give it to the receiver now."
        back = reverse("admin:delivery_endpoint_change", args=[endpoint.pk])
        return shown_once(request, "New signing secret", text, secret, back)

    def _replace(self, request: HttpRequest, endpoint: Endpoint) -> Any:
        return self._rotate(request, endpoint, 0.0)

    def _test(self, request: HttpRequest, endpoint: Endpoint) -> None:
        tested = wait_for_test(send_test(endpoint), WAITED_FOR)
        level = messages.SUCCESS if tested.delivered else messages.ERROR if tested.ended else messages.WARNING
        page = reverse("admin:jobs_backlogrecord_change", args=[tested.record_id])
        text = format_html('Test event {}. <a href="{}" class="underline">Its page</a>', describe(tested), page)
        self.message_user(request, text, level)


def _key(endpoint: Endpoint) -> str:
    """The key of the breaker of its host."""
    try:
        return f"host:{addresses.read(endpoint.url).origin}"
    except addresses.AddressRefused:
        return ""
