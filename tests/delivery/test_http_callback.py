import asyncio
import json

import pytest
from aiohttp import web
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from delivery import signing
from delivery.http import client
from delivery.models import Endpoint
from delivery.targets import TargetKey, load
from jobs.outcomes import Failed, Succeeded
from sealing.encryption import seal
from tests.delivery.events import EVENT_ID, deliver, deliver_at_once, failure_at, make_endpoint, make_event
from tests.delivery.receiver import answering, answering_in_turn, receiving
from tests.waiting import eventually

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_loopback_allowed")]


class TestAnEventThatIsDelivered:
    def test_arrives_as_json_with_its_id(self):
        with receiving() as receiver:
            [outcome] = deliver(make_event(make_endpoint(receiver.url, headers={"X-Tenant": "7"})))
        [request] = receiver.requests
        assert json.loads(request.body) == {
            "schedule": "nightly",
            "trigger_at": "2026-03-02T09:00:00Z",
            "event_id": EVENT_ID,
            "number": 3,
            "count": 10,
            "payload": {"shard": 3, "city": "Zürich"},
        }
        assert request.path == "/hook"
        expected = {"content-type": "application/json", "user-agent": "backupsched", "x-tenant": "7"}
        assert request.headers.items() >= {**expected, "idempotency-key": EVENT_ID}.items()
        assert "webhook-signature" not in request.headers
        assert isinstance(outcome, Succeeded)
        assert outcome.proves is None
        assert (outcome.facts["status"], outcome.facts["bytes"]) == (200, len("thanks"))
        assert outcome.facts["seconds"] > 0

    def test_goes_to_the_present_url_of_its_endpoint_or_its_own_and_is_delivered_by_any_answer_from_200_to_299(self):
        statuses = [200, 201, 202, 204, 299]
        with receiving(answering_in_turn(statuses)) as receiver:
            with_endpoint = make_event(make_endpoint(receiver.url), url="http://127.0.0.1:1/old")
            outcomes = deliver(with_endpoint, *(make_event(url=receiver.url) for _ in statuses[1:]))
        assert [type(outcome) for outcome in outcomes] == [Succeeded] * 5
        assert [outcome.facts["status"] for outcome in outcomes] == statuses

    def test_uses_the_connection_of_the_one_before_and_no_cookies_or_proxies(self, monkeypatch):
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        with receiving(answering(200, Set_Cookie="a=b")) as receiver:
            outcomes = deliver(*(make_event(url=receiver.url) for _ in range(5)))
            eventually(lambda: receiver.open == 0)  # the event loop has ended
        assert all(isinstance(outcome, Succeeded) for outcome in outcomes)
        assert len({request.connection for request in receiver.requests}) == 1
        assert all("cookie" not in request.headers for request in receiver.requests)
        assert client._sessions == {}

    def test_waits_for_no_other(self):
        async def answer_when_all_are_there(request: web.Request) -> web.Response:
            while receiver.peak < 200:
                await asyncio.sleep(0.01)
            return web.Response()

        with receiving(answer_when_all_are_there) as receiver:
            endpoint = make_endpoint(receiver.url)
            outcomes = deliver_at_once(*(make_event(endpoint) for _ in range(200)))
        assert all(isinstance(outcome, Succeeded) for outcome in outcomes)

    def test_may_be_large(self):
        with receiving() as receiver:
            [outcome] = deliver(make_event(url=receiver.url, body="x" * 3_000_000))
        [request] = receiver.requests
        assert isinstance(outcome, Succeeded)
        assert len(json.loads(request.body)["payload"]) == 3_000_000
        assert int(request.headers["content-length"]) == len(request.body)


class TestASignature:
    def test_is_made_with_each_secret_in_use_and_verified_by_the_library_of_the_specification(self):
        with receiving() as receiver:
            endpoint = make_endpoint(receiver.url)
            retired = signing.rotate(endpoint)
            secrets = [signing.rotate(endpoint, keep_for=0), signing.rotate(endpoint)]
            deliver(make_event(endpoint))
        [request] = receiver.requests
        assert request.headers["webhook-id"] == EVENT_ID
        assert len(request.headers["webhook-signature"].split()) == 2
        for secret in secrets:
            assert Webhook(secret).verify(request.body, request.headers)["event_id"] == EVENT_ID
            with pytest.raises(WebhookVerificationError):
                Webhook(secret).verify(request.body + b" ", request.headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(retired).verify(request.body, request.headers)

    def test_cannot_be_given_by_an_endpoints_headers(self):
        forged = {"Webhook-Signature": "v1,forged", "idempotency-KEY": "x", "content-length": "1", "Host": "other"}
        with receiving() as receiver:
            [outcome] = deliver(make_event(make_endpoint(receiver.url, headers=forged)))
        [request] = receiver.requests
        assert isinstance(outcome, Succeeded)
        assert "webhook-signature" not in request.headers
        assert request.headers["idempotency-key"] == EVENT_ID


class TestASecret:
    AUTHORIZATION = "Bearer s3cret-t0ken"

    def test_is_sent_and_in_no_error_when_it_is_repeated(self, caplog):
        async def repeat(request: web.Request) -> web.Response:
            return web.Response(status=400, text=f"you sent {request.headers['Authorization']}, or t0ken: s3cret-t0ken")

        outcome = failure_at(repeat, sealed_authorization=seal(self.AUTHORIZATION))
        assert "you sent ***" in outcome.error
        endpoint = Endpoint.objects.get()
        key = signing.key_of(signing.rotate(endpoint))
        [target] = load([TargetKey("http_callback", endpoint.pk)], {}).values()
        assert (target.authorization, target.keys) == (self.AUTHORIZATION, (key,))
        assert "s3cret" not in f"{outcome!r}{target!r}{caplog.text}"
        assert repr(key) not in repr(target)

    def test_that_cannot_be_read_fails_the_record_and_says_what_to_do(self, settings):
        endpoint = make_endpoint("http://127.0.0.1:1/", sealed_authorization=seal(self.AUTHORIZATION))
        settings.SECRET_KEY = "another"
        [outcome] = deliver(make_event(endpoint))
        assert isinstance(outcome, Failed)
        assert "the same SECRET_KEY" in outcome.error
        assert outcome.fault_of is None


class TestAnAnswerThatIsNoSuccess:
    @pytest.mark.parametrize(
        ("status", "headers", "is_fault", "retry_after"),
        [
            *((status, {}, False, 0) for status in (400, 404, 410, 429)),
            *((status, {}, True, 0) for status in (500, 503, 599)),
            (429, {"Retry_After": "120"}, False, 120),
            (503, {"Retry_After": "120"}, False, 120),
            (500, {"Retry_After": "120"}, True, 0),
        ],
    )
    def test_is_the_hosts_fault_from_500_on_unless_it_says_when_to_come_again(
        self, status, headers, is_fault, retry_after
    ):
        outcome = failure_at(answering(status, "no such hook", **headers))
        assert f" answered {status}" in outcome.error
        assert outcome.error.endswith(": no such hook")
        assert outcome.facts["status"] == status
        assert outcome.retry_after == retry_after
        assert (outcome.fault_of is not None) == is_fault


class TestWhatIsNotAllowed:
    def test_is_refused_before_anything_is_sent_also_by_settings_that_are_wrong(self, allow):
        with receiving() as receiver:
            for entries, error in (((), "is not public"), (("10.0.0.0/99",), "neither a network")):
                allow(*entries)
                [outcome] = deliver(make_event(url=receiver.url))
                assert error in outcome.error
                assert outcome.fault_of is None
        assert receiver.requests == []

    def test_a_record_without_a_place_to_go_says_so(self):
        endpoint, queue = make_endpoint("http://127.0.0.1:1/"), make_endpoint("http://[::1]:1/q", kind="sqs_message")
        records = [make_event(endpoint), make_event(queue), make_event()]
        endpoint.delete()
        gone, of_another_kind, unnamed = (outcome.error for outcome in deliver(*records))
        assert "is gone" in gone
        assert "takes no HTTP callbacks but SQS messages" in of_another_kind
        assert "neither an endpoint nor a URL" in unnamed

    def test_a_header_that_cannot_be_sent_says_so_without_quoting_it(self):
        with receiving() as receiver:
            authorization = seal("Bearer a\r\nX-Evil: 1")
            [outcome] = deliver(make_event(make_endpoint(receiver.url, sealed_authorization=authorization)))
        assert "cannot be sent" in outcome.error
        assert "Evil" not in repr(outcome)
        assert outcome.fault_of is None
        assert receiver.requests == []
