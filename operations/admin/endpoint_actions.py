"""Buttons of an endpoint: rotate its signing secret, and send it a test event."""

from collections.abc import Callable

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from unfold.decorators import action

from delivery import signing
from delivery.endpoints import endpoint_facts
from delivery.models import Endpoint, EndpointKind
from jobs.durations import span
from operations.admin.asking import AsksFirst, is_confirmed, question, shown_once
from operations.endpoint_tests import describe, send_test, wait_for_test

WAITED_FOR = 3.0
"""Seconds for which the page of an endpoint waits for what comes of a test event. A web server has few threads."""

ROTATE_MEANS = (
    f"A new secret signs from now on, beside those in use, which retire in {span(signing.KEEP_FOR)}. Give it to the "
    "receiver until then: a signature of either will do. It is shown once, on the next page."
)
REPLACE_MEANS = (
    "A new secret signs from now on, and those in use sign nothing more: what a secret that became known is good for. "
    "Until the receiver has the new one, it refuses what it gets. It is shown once, on the next page."
)
TEST_MEANS = (
    'A worker delivers one event to it, with "schedule": "test" and the payload {"test": true}. If that fails it is '
    "not tried again."
)
IS_SIGNED = "It is signed as all are."
IS_NOT_SIGNED = "It is not signed: there is no signing secret in use. Rotate secret makes one."

Verb = Callable[[HttpRequest, Endpoint], HttpResponse | None]


class EndpointActions(AsksFirst[Verb]):
    """Rotate, replace and test, from the page of an endpoint, after a question."""

    called = "endpoint"
    actions_detail = ("rotate_secret", "replace_secret", "test")

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
        """The question; once the answer was yes what comes of it."""
        endpoint = rows.get()
        if not is_confirmed(request):
            if verb == self._test:
                means = " ".join(filter(None, (means, _signing(endpoint))))
            return question(request, name, means, [f"{endpoint}: {endpoint.url}"], danger=verb == self._replace)
        return verb(request, endpoint)

    def _rotate(self, request: HttpRequest, endpoint: Endpoint) -> HttpResponse | None:
        return self._new_secret(request, endpoint, signing.KEEP_FOR)

    def _replace(self, request: HttpRequest, endpoint: Endpoint) -> HttpResponse | None:
        return self._new_secret(request, endpoint, 0.0)

    def _new_secret(self, request: HttpRequest, endpoint: Endpoint, keep_for: float) -> HttpResponse | None:
        try:
            secret = signing.rotate(endpoint, keep_for)
        except ValueError as error:
            self.message_user(request, f"{error}.", messages.WARNING)  # type: ignore[attr-defined]
            return None
        self.log_change(request, endpoint, f"New signing secret; those before it sign for {span(keep_for)} more")  # type: ignore[attr-defined]
        text = f"The new signing secret of {endpoint}. It is not shown again: give it to the receiver now."
        back = reverse("admin:delivery_endpoint_change", args=[endpoint.pk])
        return shown_once(request, "New signing secret", text, secret, back)

    def _test(self, request: HttpRequest, endpoint: Endpoint) -> HttpResponse | None:
        tested = wait_for_test(send_test(endpoint), WAITED_FOR)
        level = messages.SUCCESS if tested.delivered else messages.ERROR if tested.ended else messages.WARNING
        page = reverse("admin:jobs_backlogrecord_change", args=[tested.record_id])
        text = format_html('Test event {}. <a href="{}" class="underline">Its page</a>', describe(tested), page)
        self.message_user(request, text, level)  # type: ignore[attr-defined]
        return None


def _signing(endpoint: Endpoint) -> str:
    """Whether its events are signed, in a sentence; empty for a queue, whose messages never are."""
    if endpoint.kind != EndpointKind.HTTP_CALLBACK:
        return ""
    return IS_SIGNED if endpoint_facts(endpoint)["secrets"] else IS_NOT_SIGNED
