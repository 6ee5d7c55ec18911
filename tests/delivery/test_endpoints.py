"""Valid endpoints, and the result of a test event."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from declarations.problems import validated
from declarations.service import InUse
from delivery import declarations
from delivery.endpoints import Endpoints, endpoint_facts, secret_facts, undelivered
from delivery.models import EndpointKind
from delivery.signing import rotate
from jobs import backlog, tick
from jobs.models import BacklogRecord
from jobs.outcomes import Failed
from jobs.priorities import MAX_PRIORITY
from jobs.states import Status
from operations.endpoint_tests import EndpointVerdict, describe, send_test, wait_for_test
from sealing.encryption import unseal
from tests.delivery.endpoint_rows import a_worker_delivers, make_endpoint, make_queue_endpoint, sealed
from tests.factories import NOON, make_record
from tests.schedules.event_records import make_event_schedule

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
QUEUE = "https://sqs.eu-central-1.amazonaws.com/1/events"


def problems_of(**fields: Any) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as caught:
        validated(declarations.EndpointDeclaration, {"name": "hooks", "url": "https://example.com/hooks"} | fields)
    return caught.value.message_dict


class TestWhatAnEndpointMayBe:
    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"headers": {"X-Tenant": "7", "accept": "text/plain; q=0.5"}},
            {"url": "http://93.184.215.14:8080/x?y=1", "follow_redirects": True},
            {"kind": EndpointKind.SQS_MESSAGE, "url": "https://sqs.eu-central-1.amazonaws.com/1/events.fifo"},
            {"kind": EndpointKind.SQS_MESSAGE, "url": QUEUE, "region": "us-gov-west-1"},
        ],
    )
    def test_these_are_well(self, fields: dict[str, Any]) -> None:
        validated(declarations.EndpointDeclaration, {"name": "hooks", "url": "https://example.com/hooks"} | fields)

    @pytest.mark.parametrize(
        ("fields", "field", "error"),
        [
            ({"url": "http://127.0.0.1/hook"}, "url", "is not public"),
            ({"url": "ftp://example.com/hook"}, "url", "http"),
            ({"url": "https://ann:secret@example.com/"}, "url", "shown to everyone who may see"),
            ({"kind": "pigeon"}, "kind", "must be 'http_callback' or 'sqs_message'"),
            ({"region": "eu-west-1"}, "region", "is not for an endpoint of HTTP callbacks"),
            ({"message_group": "a"}, "message_group", "is not for an endpoint of HTTP callbacks"),
            ({"kind": "sqs_message", "url": "https://example.com/"}, "url", "names a server and no queue"),
            ({"kind": "sqs_message", "url": "http://10.0.0.1/1/events"}, "url", "is not public"),
            ({"kind": "sqs_message", "url": QUEUE, "region": "Paris"}, "region", "eu-central-1"),
            ({"kind": "sqs_message", "url": QUEUE, "message_group": "a b"}, "message_group", "spaces"),
            ({"kind": "sqs_message", "url": QUEUE, "headers": {"a": "b"}}, "headers", "is not for"),
            ({"kind": "sqs_message", "url": QUEUE, "follow_redirects": True}, "follow_redirects", "not"),
        ],
    )  # fmt: skip
    def test_these_are_not(self, fields: dict[str, Any], field: str, error: str) -> None:
        found = problems_of(**fields)
        assert list(found) == [field]
        assert error in found[field][0]

    @pytest.mark.parametrize(
        ("headers", "error"),
        [
            ({"a b": "1"}, "not the name of a header"),
            ({"": "1"}, "not the name of a header"),
            ({"X": "a\r\nHost: evil"}, "not a text"),
            ({"X": "€"}, "not a text"),
            ({"X": "a" * 3000}, "not a text"),
            ({"AUTHORIZATION": "Bearer x"}, "set Authorization by itself"),
            ({"Host": "evil"}, "set by the delivery itself"),
            ({"Webhook-Signature": "v1,x"}, "set by the delivery itself"),
            ({"Idempotency-Key": "1"}, "set by the delivery itself"),
            ({f"X-{number}": "" for number in range(51)}, "at most 50"),
        ],
    )
    def test_headers_that_cannot_be_sent_or_would_show_a_secret(self, headers: Any, error: str) -> None:
        assert error in problems_of(headers=headers)["headers"][0]

    @pytest.mark.parametrize("text", ["Bearer a\r\nX: y", "Bearer €", "x" * 9000, "a\0b"])
    def test_an_authorization_that_no_header_can_hold_is_not_quoted(self, text: str) -> None:
        with pytest.raises(ValidationError, match="is one line of up to 8000 characters") as caught:
            Endpoints().edit(make_endpoint(), {"authorization": text})
        assert text not in str(caught.value)


class TestAuthorization:
    def test_is_sealed(self) -> None:
        endpoint = Endpoints().edit(make_endpoint(), {"authorization": " Bearer sesame \n"}).row
        endpoint.refresh_from_db()
        assert unseal(endpoint.sealed_authorization) == "Bearer sesame"
        assert "sesame" not in str(endpoint_facts(endpoint))
        assert Endpoints().edit(endpoint, {"authorization": None}).row.sealed_authorization == ""

    @pytest.mark.parametrize(
        ("url", "is_asked"),
        [
            ("https://example.com/elsewhere", False),
            ("https://EXAMPLE.com:443/hooks", False),
            ("https://example.org/hooks", True),
            ("http://example.com/hooks", True),
            ("https://example.com:8443/hooks", True),
        ],
    )
    def test_is_asked_for_again_when_it_would_go_elsewhere(self, url: str, is_asked: bool) -> None:
        endpoint = make_endpoint(**sealed())
        if is_asked:
            with pytest.raises(ValidationError, match="enter it again, or remove it"):
                Endpoints().edit(endpoint, {"url": url})
        Endpoints().edit(endpoint, {"url": url} | ({"authorization": "Bearer x"} if is_asked else {}))


class TestSecrets:
    def test_are_described_by_age_and_retirement_and_a_queue_has_none(self) -> None:
        endpoint = make_endpoint()
        rotate(endpoint, now=NOON)
        rotate(endpoint, 3600, now=NOON + HOUR)
        facts = [secret_facts(secret, NOON + 2 * HOUR) for secret in endpoint.signing_secrets.all()]
        assert [(each["age"], each["state"], each["retires_at"]) for each in facts] == [
            (7200.0, "retired", NOON + 2 * HOUR),
            (3600.0, "in use", None),
        ]
        first = secret_facts(endpoint.signing_secrets.all()[0], NOON + 1.5 * HOUR)
        assert first["state"] == "retiring"
        with pytest.raises(ValueError, match="not signed"):
            rotate(make_queue_endpoint())


class TestRemoving:
    def test_one_that_schedules_use_is_refused_with_their_names(self) -> None:
        endpoint = make_endpoint()
        assert Endpoints().uses(endpoint) == []
        for number in range(7):
            make_event_schedule(name=f"a{number}", endpoint=endpoint)
        with pytest.raises(InUse, match="by the schedules a0, a1, a2, a3, a4 and 2 more: give them another endpoint"):
            Endpoints().remove([endpoint])

    def test_what_is_still_to_be_delivered_there_is_counted(self) -> None:
        endpoint, other = make_endpoint(), make_endpoint("other")
        for status in Status:
            make_record(status, kind="http_callback", payload={"endpoint": endpoint.pk})
        make_record(kind="http_callback", payload={"endpoint": other.pk})
        assert undelivered(endpoint) == 3


class TestTestEvents:
    def test_one_goes_before_everything_else(self) -> None:
        endpoint = make_endpoint()
        record = BacklogRecord.objects.get(pk=send_test(endpoint))
        assert (record.kind, record.queue, record.status) == ("http_callback", "callbacks", Status.READY)
        assert record.priority == MAX_PRIORITY
        assert record.payload["body"] == {"test": True}
        assert record.payload["event_id"] == record.subject
        assert record.payload["endpoint"] == endpoint.pk
        assert send_test(endpoint) != record.pk

    @pytest.mark.parametrize("is_waited_for", [True, False])
    def test_a_failed_one_is_not_tried_again(self, is_waited_for: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        failed = Failed("it answered 500", facts={"status": 500, "seconds": 0.25})
        taken = a_worker_delivers(monkeypatch, lambda _: failed)
        if not is_waited_for:
            monkeypatch.setattr(backlog, "cancel", lambda ids: None)
        tested = wait_for_test(send_test(make_endpoint()), 5)
        assert describe(tested) == "not delivered (500 after 0.250 s): it answered 500"
        record = BacklogRecord.objects.get()
        tick.tick(record.run_after + timedelta(seconds=1), rescue=False)
        record.refresh_from_db()
        assert (record.status, len(taken)) == (Status.CANCELLED if is_waited_for else Status.FAILED, 1)

    def test_one_without_a_worker_shows_the_reason_and_is_dropped_later(self) -> None:
        tested = wait_for_test(send_test(make_endpoint()), 0)
        assert describe(tested).startswith("not delivered yet: ")
        assert "no worker" in tested.why
        record = BacklogRecord.objects.get()
        assert record.closes_at
        tick.tick(record.closes_at + timedelta(seconds=1), rescue=False)
        assert BacklogRecord.objects.get().status == Status.FAILED

    def test_one_whose_record_is_gone(self) -> None:
        assert wait_for_test(4711, 0) == EndpointVerdict(4711, ended=True, why="its record is gone")
