"""Events delivered to queues: what arrives, and what is said when nothing does. With a server that speaks SQS."""

import json
import re
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from delivery.models import Endpoint
from delivery.sqs import clients, message
from delivery.sqs.message import deliver
from jobs.outcomes import Failed, Outcome, Released, Succeeded
from tests.delivery.queue_servers import (
    CREDENTIALS,
    QueueServer,
    ToldServer,
    describe_server,
    endpoint_at,
    queue_server,
    run_for,
)
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueServer]:
    with queue_server(tmp_path_factory.mktemp("queues")) as running:
        yield running


@pytest.fixture
def told() -> Iterator[ToldServer]:
    with describe_server() as running:
        yield running


@pytest.fixture(autouse=True)
def _loopback_is_allowed(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.CALLBACKS_ALLOWED = ["127.0.0.0/8"]
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    yield
    clients.forget_all()
    message.forget_all()


def delivered(outcome: Outcome) -> Succeeded:
    assert isinstance(outcome, Succeeded), outcome
    return outcome


def failed(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed), outcome
    return outcome


@pytest.mark.promise
def test_an_event_is_one_message_and_its_answer_is_kept(told: ToldServer) -> None:
    told.body = json.dumps({"MessageId": "message 1"})
    outcome = delivered(deliver(run_for(endpoint_at(f"{told.url}/1/events"), body={"shard": 3})))
    assert outcome.facts
    assert (outcome.facts["status"], outcome.facts["message_id"]) == (200, "message 1")
    [sent] = [json.loads(body) for body in told.bodies]
    assert sent["QueueUrl"] == f"{told.url}/1/events"
    assert json.loads(sent["MessageBody"])["payload"] == {"shard": 3}


class TestWhatArrives:
    def test_the_document_of_a_callback_with_two_attributes(self, server: QueueServer) -> None:
        url = server.make_queue("document")
        outcome = delivered(deliver(run_for(endpoint_at(url), 3, {"shard": 3, "of": "zehn Äpfel"})))
        [message] = server.received(url)
        assert json.loads(message["Body"]) == {
            "schedule": "nightly reports",
            "trigger_at": "2026-03-02T12:00:00Z",
            "event_id": "7-20260302T120000Z-3",
            "number": 3,
            "count": 10,
            "payload": {"shard": 3, "of": "zehn Äpfel"},
        }
        attributes = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
        assert attributes == {"event_id": "7-20260302T120000Z-3", "schedule": "nightly reports"}
        assert outcome.facts
        assert outcome.facts["status"] == 200
        assert outcome.facts["message_id"] == message["MessageId"]
        assert outcome.facts["seconds"] > 0

    @pytest.mark.parametrize("text", ["a\x01b\x7f", "\ud83d", "\ufffe\uffff", "🗄 ü", '"\\'])
    def test_texts_that_a_queue_would_refuse_arrive_as_they_were(self, text: str, server: QueueServer) -> None:
        url = server.make_queue("texts")
        run = run_for(endpoint_at(url), body={"text": text})
        run.record.payload["schedule"] = f"odd {text}"
        delivered(deliver(run))
        [message] = server.received(url)
        assert json.loads(message["Body"])["payload"] == {"text": text}
        assert json.loads(message["Body"])["schedule"] == f"odd {text}"

    def test_what_a_person_corrects_at_the_endpoint_holds_for_events_under_way(self, server: QueueServer) -> None:
        wrong, right = server.make_queue("wrong"), server.make_queue("right")
        run = run_for(endpoint_at(wrong))
        Endpoint.objects.update(url=right)
        delivered(deliver(run))
        assert len(server.received(right)) == 1

    def test_an_event_that_names_a_queue_and_no_endpoint(
        self, server: QueueServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        url = server.make_queue("named")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        run = run_for(None)
        run.record.payload["url"] = url
        delivered(deliver(run))
        assert len(server.received(url)) == 1

    def test_a_worker_asks_the_database_once_a_second(
        self, server: QueueServer, django_assert_num_queries: DjangoAssertNumQueries, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert message.KNOWN_FOR == 1.0
        monkeypatch.setattr(message, "KNOWN_FOR", 2 * PATIENCE)
        endpoint = endpoint_at(server.make_queue("asked"))
        delivered(deliver(run_for(endpoint, 1)))
        with django_assert_num_queries(0):
            for number in range(2, 5):
                delivered(deliver(run_for(endpoint, number)))
        monkeypatch.setattr(message, "KNOWN_FOR", -1.0)
        with django_assert_num_queries(2):
            delivered(deliver(run_for(endpoint, 5)))

    def test_a_run_that_was_told_to_end_sends_nothing(self, server: QueueServer) -> None:
        url = server.make_queue("stopped")
        run = run_for(endpoint_at(url))
        run.stop.set()
        assert isinstance(deliver(run), Released)
        assert server.received(url) == []


class TestFifo:
    def test_an_event_that_is_sent_twice_is_received_once(self, server: QueueServer) -> None:
        url = server.make_queue("twice.fifo", FifoQueue="true")
        endpoint = endpoint_at(url)
        outcomes = [delivered(deliver(run_for(endpoint, number))) for number in (1, 1, 2)]
        messages = server.received(url)
        assert [json.loads(message["Body"])["number"] for message in messages] == [1, 2]
        assert messages[0]["Attributes"]["MessageDeduplicationId"] == "7-20260302T120000Z-1"
        assert outcomes[0].facts
        assert outcomes[0].facts["sequence_number"]

    @pytest.mark.parametrize(("group", "expected"), [("", "schedule-7"), ("reports of Köln", "reports_of_K_ln")])
    def test_its_group_is_the_endpoints_or_else_the_schedules(
        self, group: str, expected: str, server: QueueServer
    ) -> None:
        url = server.make_queue("groups.fifo", FifoQueue="true")
        run = run_for(endpoint_at(url, message_group=group), len(group) + 1)
        delivered(deliver(run))
        assert server.received(url)[0]["Attributes"]["MessageGroupId"] == expected


class TestTooLarge:
    def test_the_queue_says_so_and_the_error_what_to_do(self, server: QueueServer) -> None:
        url = server.make_queue("small", MaximumMessageSize="262144")
        endpoint = endpoint_at(url)
        delivered(deliver(run_for(endpoint, 1, "x" * 262_000)))
        outcome = failed(deliver(run_for(endpoint, 2, "x" * 262_144)))
        assert "262,3" in outcome.error
        assert "shorten the payload template" in outcome.error
        assert outcome.fault_of is None
        assert outcome.facts
        assert outcome.facts["status"] == 400

    def test_what_no_queue_takes_is_not_sent(self, told: ToldServer) -> None:
        outcome = failed(deliver(run_for(endpoint_at(f"{told.url}/1/events"), 1, "x" * 1_048_576)))
        assert "larger than the queue takes" in outcome.error
        assert told.asked == []


class TestRefusals:
    @pytest.mark.parametrize("user", ["user:hunter2", "user:hun/ter2", "user:hun@ter2"])
    def test_no_error_tells_a_password(self, user: str) -> None:
        outcome = failed(deliver(run_for(endpoint_at(f"https://{user}@example.com/1234/events", name="queue"))))
        assert outcome.error.startswith("nothing may be sent to https://example.com/…/events: ")
        assert "ter2" not in outcome.error

    def test_a_queue_that_is_not_there(self, server: QueueServer) -> None:
        outcome = failed(deliver(run_for(endpoint_at(f"{server.url}/123456789012/none"))))
        assert "there is no such queue: correct the URL" in outcome.error
        assert f"{server.url}/…/none: " in outcome.error
        assert "123456789012" not in outcome.error.partition(": ")[0]
        assert outcome.fault_of is None

    def test_wrong_credentials_are_looked_for_anew(self, server: QueueServer, monkeypatch: pytest.MonkeyPatch) -> None:
        run = run_for(endpoint_at(server.make_queue("closed")))
        server.check_credentials("0")
        try:
            outcome = failed(deliver(run))
        finally:
            server.check_credentials("inf")
        assert "the worker's credentials are not accepted" in outcome.error
        assert "a secret" not in outcome.error
        assert outcome.fault_of is None
        asked = monkeypatch.setattr(clients, "_made", lambda key: pytest.fail("it was made anew"))
        with pytest.raises(pytest.fail.Exception, match="made anew"):
            deliver(run)
        assert asked is None

    def test_no_credentials(self, told: ToldServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        endpoint = endpoint_at(f"{told.url}/1/events")
        outcome = failed(deliver(run_for(endpoint)))
        assert "the worker finds no credentials: give it some" in outcome.error
        assert told.asked == []
        told.body = json.dumps({"MessageId": "m"})
        for name in CREDENTIALS:
            monkeypatch.setenv(name, CREDENTIALS[name])
        delivered(deliver(run_for(endpoint)))

    def test_no_boto3(self, told: ToldServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "boto3", None)
        outcome = failed(deliver(run_for(endpoint_at(f"{told.url}/1/events"))))
        assert "run `pip install 'backupsched[sqs]'`" in outcome.error

    def test_no_region(self, told: ToldServer, monkeypatch: pytest.MonkeyPatch) -> None:
        endpoint = endpoint_at(f"{told.url}/1/events", region="")
        assert "AWS_DEFAULT_REGION" in failed(deliver(run_for(endpoint))).error
        told.body = json.dumps({"MessageId": "m"})
        monkeypatch.setenv("AWS_REGION", "eu-west-1")
        delivered(deliver(run_for(endpoint)))

    @pytest.mark.parametrize("seconds", ["", "17"])
    def test_asked_too_often_it_is_left_alone_for_as_long_as_it_says(self, seconds: str, told: ToldServer) -> None:
        told.refuses("RequestThrottled", "too many", status=403, **({"Retry_After": seconds} if seconds else {}))
        outcome = failed(deliver(run_for(endpoint_at(f"{told.url}/1/events"))))
        assert "asked too often (RequestThrottled: too many)" in outcome.error
        assert outcome.retry_after == float(seconds or 5)
        assert outcome.fault_of is None

    def test_every_try_is_one_request(self, told: ToldServer) -> None:
        told.refuses("InternalError", status=500)
        failed(deliver(run_for(endpoint_at(f"{told.url}/1/events"))))
        assert told.asked == ["/"]

    @pytest.mark.parametrize("body", ["{}", "[]", "<html>welcome</html>", ""])
    def test_a_server_that_is_no_queues(self, body: str, told: ToldServer) -> None:
        told.body = body
        outcome = failed(deliver(run_for(endpoint_at(f"{told.url}/1/events"))))
        assert "is that a server of queues?" in outcome.error


class TestAddresses:
    def test_one_that_is_not_public_is_refused_unless_allowed(self, told: ToldServer, settings: Any) -> None:
        settings.CALLBACKS_ALLOWED = []
        outcome = failed(deliver(run_for(endpoint_at(f"{told.url}/1/events"))))
        assert "is not public" in outcome.error
        assert "CALLBACKS_ALLOWED" in outcome.error
        assert told.asked == []

    def test_a_name_that_leads_to_one_is_refused(
        self, told: ToldServer, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings.CALLBACKS_ALLOWED = []
        outcome = failed(deliver(run_for(_by_name(told, monkeypatch, always=True))))
        assert "queues.example.com has the address 127." in outcome.error
        assert told.asked == []
        assert outcome.fault_of is None

    def test_a_name_that_leads_to_one_only_when_it_is_connected_to(
        self, told: ToldServer, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings.CALLBACKS_ALLOWED = []
        outcome = failed(deliver(run_for(_by_name(told, monkeypatch, always=False))))
        assert "queues.example.com has the address 127." in outcome.error
        assert told.asked == []

    def test_a_name_that_is_allowed_may_lead_anywhere(
        self, told: ToldServer, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings.CALLBACKS_ALLOWED = ["queues.example.com"]
        told.body = json.dumps({"MessageId": "m"})
        delivered(deliver(run_for(_by_name(told, monkeypatch, always=True))))
        assert told.asked == ["/"]

    def test_a_redirect_is_not_followed(self, told: ToldServer, server: QueueServer) -> None:
        url = server.make_queue("redirected")
        told.status, told.body, told.headers = 307, "", {"Location": f"{server.url}/"}
        failed(deliver(run_for(endpoint_at(f"{told.url}/1/events"))))
        assert server.received(url) == []

    def test_no_proxy_is_used(self, told: ToldServer, monkeypatch: pytest.MonkeyPatch) -> None:
        """It would look up the name in place of us."""
        with describe_server() as proxy:
            monkeypatch.setenv("http_proxy", proxy.url)
            told.body = json.dumps({"MessageId": "m"})
            delivered(deliver(run_for(endpoint_at(f"{told.url}/1/events"))))
            assert proxy.asked == []


def _by_name(told: ToldServer, monkeypatch: pytest.MonkeyPatch, *, always: bool) -> Endpoint:
    """An endpoint by a name that leads to `told`: always, or only from the second time on that it is looked up."""
    looked_up: list[str] = []
    look_up = socket.getaddrinfo
    [address, port] = re.findall(r"http://([\d.]+):(\d+)", told.url)[0]

    def answer(host: str, *rest: Any, **more: Any) -> Any:
        if host != "queues.example.com":
            return look_up(host, *rest, **more)
        looked_up.append(host)
        found = address if always or len(looked_up) > 1 else "93.184.215.14"
        return look_up(found, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return endpoint_at(f"http://queues.example.com:{port}/1/events")
