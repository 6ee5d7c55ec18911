import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from aiohttp import web
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from delivery import signing
from delivery.encryption import seal
from delivery.http import client
from delivery.targets import Key, load
from jobs.outcomes import Failed, Succeeded
from tests.delivery.events import EVENT_ID, deliver, deliver_at_once, failure_at, make_endpoint, make_event
from tests.delivery.receiver import answering, receiving
from tests.waiting import PATIENCE, eventually

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
        assert request.headers["idempotency-key"] == EVENT_ID
        assert request.headers["content-type"] == "application/json"
        assert request.headers["user-agent"] == "backupsched"
        assert request.headers["x-tenant"] == "7"
        assert "webhook-signature" not in request.headers
        assert isinstance(outcome, Succeeded)
        assert outcome.proves is None
        assert outcome.facts["status"] == 200
        assert outcome.facts["bytes"] == len("thanks")
        assert outcome.facts["seconds"] > 0

    def test_needs_no_endpoint_when_it_has_a_url(self):
        with receiving() as receiver:
            [outcome] = deliver(make_event(url=receiver.url))
        assert isinstance(outcome, Succeeded)

    def test_goes_to_the_present_url_of_its_endpoint(self):
        with receiving() as receiver:
            endpoint = make_endpoint(receiver.url)
            [outcome] = deliver(make_event(endpoint, url="http://127.0.0.1:1/old"))
        assert isinstance(outcome, Succeeded)

    @pytest.mark.parametrize("status", [200, 201, 202, 204])
    def test_is_delivered_by_any_answer_from_200_to_299(self, status):
        with receiving(answering(status)) as receiver:
            [outcome] = deliver(make_event(url=receiver.url))
        assert isinstance(outcome, Succeeded)
        assert outcome.facts["status"] == status

    def test_uses_the_connection_of_the_one_before(self):
        with receiving() as receiver:
            deliver(*(make_event(url=receiver.url) for _ in range(5)))
            assert len({request.connection for request in receiver.requests}) == 1

    def test_waits_for_no_other(self):
        async def answer_when_all_are_there(request: web.Request) -> web.Response:
            while receiver.peak < 200:
                await asyncio.sleep(0.01)
            return web.Response()

        with receiving(answer_when_all_are_there) as receiver:
            endpoint = make_endpoint(receiver.url)
            outcomes = deliver_at_once(*(make_event(endpoint) for _ in range(200)))
        assert all(isinstance(outcome, Succeeded) for outcome in outcomes)

    def test_keeps_no_cookies(self):
        with receiving(answering(200, Set_Cookie="a=b")) as receiver:
            deliver(make_event(url=receiver.url), make_event(url=receiver.url))
        assert all("cookie" not in request.headers for request in receiver.requests)

    def test_may_be_large(self):
        with receiving() as receiver:
            [outcome] = deliver(make_event(url=receiver.url, body="x" * 3_000_000))
        [request] = receiver.requests
        assert isinstance(outcome, Succeeded)
        assert len(json.loads(request.body)["payload"]) == 3_000_000
        assert int(request.headers["content-length"]) == len(request.body)

    def test_goes_past_the_proxies_of_the_environment(self, monkeypatch):
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        with receiving() as receiver:
            [outcome] = deliver(make_event(url=receiver.url))
        assert isinstance(outcome, Succeeded)


class TestASignature:
    def test_is_verified_by_the_library_of_the_specification(self):
        with receiving() as receiver:
            endpoint = make_endpoint(receiver.url)
            secret = signing.rotate(endpoint)
            deliver(make_event(endpoint))
        [request] = receiver.requests
        assert Webhook(secret).verify(request.body, request.headers)["event_id"] == EVENT_ID
        assert request.headers["webhook-id"] == EVENT_ID
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(request.body + b" ", request.headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(signing.new_secret()).verify(request.body, request.headers)

    def test_is_made_with_both_secrets_during_a_rotation(self):
        with receiving() as receiver:
            endpoint = make_endpoint(receiver.url)
            secrets = [signing.rotate(endpoint), signing.rotate(endpoint)]
            deliver(make_event(endpoint))
        [request] = receiver.requests
        assert len(request.headers["webhook-signature"].split()) == 2
        for secret in secrets:
            Webhook(secret).verify(request.body, request.headers)

    def test_is_not_made_with_a_secret_that_has_retired(self):
        with receiving() as receiver:
            endpoint = make_endpoint(receiver.url)
            old = signing.rotate(endpoint)
            new = signing.rotate(endpoint, keep_for=0)
            deliver(make_event(endpoint))
        [request] = receiver.requests
        Webhook(new).verify(request.body, request.headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(old).verify(request.body, request.headers)

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
        assert "s3cret" not in f"{outcome!r}{caplog.text}"

    def test_is_in_no_repr_of_what_is_known_of_an_endpoint(self):
        endpoint = make_endpoint("https://example.com/", sealed_authorization=seal(self.AUTHORIZATION))
        secret = signing.rotate(endpoint)
        [target] = load([Key("http_callback", endpoint.pk)], {}).values()
        assert target.authorization == self.AUTHORIZATION
        assert target.keys == (signing.key_of(secret),)
        assert "s3cret" not in repr(target)
        assert repr(signing.key_of(secret)) not in repr(target)

    def test_that_cannot_be_read_fails_the_record_and_says_what_to_do(self, settings):
        endpoint = make_endpoint("http://127.0.0.1:1/", sealed_authorization=seal(self.AUTHORIZATION))
        settings.SECRET_KEY = "another"
        [outcome] = deliver(make_event(endpoint))
        assert isinstance(outcome, Failed)
        assert "the same SECRET_KEY" in outcome.error
        assert outcome.fault_of is None


class TestAnAnswerThatIsNoSuccess:
    @pytest.mark.parametrize("status", [400, 401, 404, 408, 410, 422, 429])
    def test_of_4xx_fails_the_record_and_blames_nobody(self, status):
        outcome = failure_at(answering(status, "no such hook"))
        assert f"answered {status} " in outcome.error
        assert outcome.error.endswith(": no such hook")
        assert outcome.fault_of is None
        assert outcome.facts["status"] == status

    @pytest.mark.parametrize("status", [500, 502, 503, 504, 599])
    def test_of_5xx_is_the_hosts_fault(self, status):
        outcome = failure_at(answering(status))
        assert outcome.fault_of.key == f"host:{outcome.fault_of.title}"
        assert outcome.fault_of.title.startswith("http://127.0.0.1:")

    @pytest.mark.parametrize("status", [429, 503])
    def test_says_in_seconds_when_to_come_again(self, status):
        outcome = failure_at(answering(status, Retry_After="120"))
        assert outcome.retry_after == 120
        assert outcome.fault_of is None

    def test_says_by_a_date_when_to_come_again(self):
        at = format_datetime(datetime.now(UTC) + timedelta(minutes=10), usegmt=True)
        assert 600 - PATIENCE < failure_at(answering(429, Retry_After=at)).retry_after <= 600

    def test_of_another_status_says_nothing_about_when(self):
        assert failure_at(answering(500, Retry_After="120")).retry_after == 0

    def test_is_quoted_in_print_and_not_at_length(self):
        outcome = failure_at(answering(400, "a\x00b\x1b[31m\r\n" + "long " * 100))
        said = outcome.error.split(": ", 1)[1]
        assert said.startswith("a b [31m long")
        assert len(said) == 200


class TestAnEventLoopThatEnds:
    def test_leaves_no_connection_behind(self):
        with receiving() as receiver:
            deliver(make_event(url=receiver.url))
            eventually(lambda: receiver.open == 0)
        assert client._sessions == {}


class TestWhatIsNotAllowed:
    def test_is_refused_before_anything_is_sent(self, allow):
        allow()
        with receiving() as receiver:
            [outcome] = deliver(make_event(url=receiver.url))
        assert "is not public" in outcome.error
        assert outcome.fault_of is None
        assert receiver.requests == []

    def test_by_settings_that_are_wrong_says_so(self, allow):
        allow("10.0.0.0/99")
        [outcome] = deliver(make_event(url="http://127.0.0.1:1/"))
        assert "neither a network" in outcome.error

    def test_an_endpoint_that_is_gone_says_so(self):
        endpoint = make_endpoint("http://127.0.0.1:1/")
        record = make_event(endpoint)
        endpoint.delete()
        [outcome] = deliver(record)
        assert "is gone" in outcome.error

    def test_an_endpoint_of_another_kind_says_so(self):
        [outcome] = deliver(make_event(make_endpoint("http://127.0.0.1:1/", kind="sqs_message")))
        assert "takes no HTTP callbacks" in outcome.error

    def test_a_record_that_names_nothing_says_so(self):
        [outcome] = deliver(make_event())
        assert "neither an endpoint nor a URL" in outcome.error

    def test_a_header_that_cannot_be_sent_says_so_without_quoting_it(self):
        with receiving() as receiver:
            authorization = seal("Bearer a\r\nX-Evil: 1")
            [outcome] = deliver(make_event(make_endpoint(receiver.url, sealed_authorization=authorization)))
        assert "cannot be sent" in outcome.error
        assert "Evil" not in repr(outcome)
        assert outcome.fault_of is None
        assert receiver.requests == []
