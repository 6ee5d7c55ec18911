"""Endpoints: where events are delivered, with which secrets, and whether it works."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display
from unfold.views import ChangeList

from delivery import addresses
from delivery.endpoints import secret_facts
from delivery.models import Endpoint, EndpointKind
from jobs.durations import span
from jobs.formatting import several
from jobs.models import Breaker
from operations.admin.base import SMALL_TEXT_AREAS, moment
from operations.admin.breakers import link_to
from operations.admin.declared import DeclaredAdmin
from operations.admin.endpoint_actions import EndpointActions
from operations.admin.endpoint_form import EndpointForm
from operations.admin.tables import table

SECRET_COLUMNS = ("secret", "made (UTC)", "age", "state", "retires (UTC)")

WHERE: tuple[str, ...] = ("name", "kind", "url")
OF_CALLBACKS: tuple[str, ...] = ("headers", "follow_redirects")
AUTHORIZATION: tuple[str, ...] = ("authorization_is", "authorization", "remove_authorization")
OF_QUEUES: tuple[str, ...] = ("region", "message_group")
TIMES: tuple[str, ...] = ("connect_timeout", "timeout")


class EndpointList(ChangeList):
    """A page of endpoints, with the breakers of their hosts: one question for all of them."""

    result_list: Any

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        endpoints: list[Any] = list(self.result_list)
        found = {breaker.key: breaker for breaker in Breaker.objects.filter(key__in=map(_key, endpoints))}
        for endpoint in endpoints:
            endpoint.breaker = found.get(_key(endpoint))
        self.result_list = endpoints


@admin.register(Endpoint)
class EndpointAdmin(EndpointActions, DeclaredAdmin):
    """An endpoint: its form has the fields of its kind."""

    when_empty = "An endpoint is where events are delivered: a URL that is called, or a queue of SQS."
    form = EndpointForm
    formfield_overrides = SMALL_TEXT_AREAS
    list_display = ("name", "kind", "shown_url", "authorization_is", "secrets", "schedules", "host")
    list_filter = ("kind",)
    search_fields = ("name", "url")
    ordering = ("name",)
    readonly_fields = ("authorization_is", "signing_secrets", "host", "used_by")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return EndpointList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Endpoint]:
        found: QuerySet[Endpoint] = super().get_queryset(request)
        return found.annotate(schedule_count=Count("schedules"))

    def get_readonly_fields(self, request: HttpRequest, obj: Endpoint | None = None) -> tuple[str, ...]:
        """The kind of one that exists stays: its schedules and their events are of that kind."""
        return (*self.readonly_fields, "kind") if obj else self.readonly_fields

    def get_fieldsets(self, request: HttpRequest, obj: Endpoint | None = None) -> Any:
        """On the page of one, what its kind has; of a new one, everything."""
        callbacks = [
            ("HTTP callbacks", {"fields": OF_CALLBACKS}),
            ("Authorization", {"fields": AUTHORIZATION if obj else AUTHORIZATION[1:2]}),
        ]
        queues = [("SQS messages", {"fields": OF_QUEUES})]
        where, times = (None, {"fields": WHERE}), ("Seconds", {"fields": TIMES})
        if obj is None:
            return (where, *callbacks, *queues, times)
        about = ("About it", {"fields": ("host", "used_by")})
        if obj.kind == EndpointKind.SQS_MESSAGE:
            return (where, *queues, times, about)
        return (where, *callbacks, ("Signing secrets", {"fields": ("signing_secrets",)}), times, about)

    @admin.display(description="URL", ordering="url")
    def shown_url(self, endpoint: Endpoint) -> SafeString:
        return format_html('<span style="overflow-wrap: anywhere; white-space: normal">{}</span>', endpoint.url)

    @admin.display(description="Authorization")
    def authorization_is(self, endpoint: Endpoint) -> str:
        if endpoint.kind == EndpointKind.SQS_MESSAGE:
            return "-"
        return "set" if endpoint.sealed_authorization else "not set"

    @admin.display(description="signed with")
    def secrets(self, endpoint: Endpoint) -> str:
        if endpoint.kind == EndpointKind.SQS_MESSAGE:
            return "-"
        states = [secret_facts(secret, timezone.now())["state"] for secret in endpoint.signing_secrets.all()]
        in_use = len(states) - states.count("retired")
        return several(in_use, "secret") if in_use else "nothing"

    @admin.display(description="signing secrets")
    def signing_secrets(self, endpoint: Endpoint) -> SafeString | str:
        rows = (
            (f"#{facts['id']}", moment(facts["created_at"]), span(facts["age"]), facts["state"],
             moment(facts["retires_at"]) or "never")
            for facts in (secret_facts(secret, timezone.now()) for secret in endpoint.signing_secrets.all())
        )  # fmt: skip
        return table(SECRET_COLUMNS, rows, empty="None: callbacks are not signed. Rotate secret makes the first one.")

    @admin.display(description="schedules", ordering="schedule_count")
    def schedules(self, endpoint: Any) -> SafeString | str:
        if not endpoint.schedule_count:
            return "0"
        url = reverse("admin:schedules_schedule_changelist")
        return format_html('<a href="{}?endpoint__id__exact={}">{}</a>', url, endpoint.pk, endpoint.schedule_count)

    @admin.display(description="used by")
    def used_by(self, endpoint: Any) -> SafeString | str:
        if not endpoint.schedule_count:
            return "no schedule"
        _, _, word = several(endpoint.schedule_count, "schedule").partition(" ")
        return format_html("{} {}", self.schedules(endpoint), word)

    @display(description="breaker")
    def host(self, endpoint: Any) -> SafeString | str:
        """The state of its breaker, as a link to that."""
        if not hasattr(endpoint, "breaker"):
            endpoint.breaker = Breaker.objects.filter(key=_key(endpoint)).first()
        return link_to(endpoint.breaker) if endpoint.breaker else "closed"


def _key(endpoint: Endpoint) -> str:
    """Of the breaker of its host."""
    try:
        return f"host:{addresses.read(endpoint.url).origin}"
    except addresses.Refused:
        return ""
