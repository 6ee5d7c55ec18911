"""Events delivered to queues: what arrives, and the error when nothing does. With a server that speaks SQS."""

import json
import re
import socket
import sys
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from delivery import targets
from delivery.models import Endpoint
from delivery.sqs import clients
from delivery.sqs.message import deliver
from jobs.outcomes import Failed, Outcome, Released, Succeeded
from tests.delivery.queue_servers import CREDENTIALS, QueueServer, ScriptedServer, endpoint_at, run_for, scripted_server

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.usefixtures("_worker_of_queues")]

TAKEN = json.dumps({"MessageId": "message 1"})


def delivered(outcome: Outcome) -> Succeeded:
    assert isinstance(outcome, Succeeded), outcome
    return outcome


def failed(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed), outcome
    return outcome


def scripted_endpoint(scripted: ScriptedServer, **fields: Any) -> Endpoint:
    return endpoint_at(f"{scripted.url}/1/events", **fields)


@pytest.mark.promise
def test_an_event_is_one_message_and_its_answer_is_kept(scripted: ScriptedServer) -> None:
    scripted.body = TAKEN
    outcome = delivered(deliver(run_for(scripted_endpoint(scripted), body={"shard": 3})))
    assert outcome.facts
    assert (outcome.facts["status"], outcome.facts["message_id"]) == (200, "message 1")
    [sent] = [json.loads(body) for body in scripted.bodies]
    assert sent["QueueUrl"] == f"{scripted.url}/1/events"
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
        assert outcome.facts["message_id"] == message["MessageId"]
        assert outcome.facts["seconds"] > 0

    def test_texts_that_a_queue_would_refuse_arrive_as_they_were(self, server: QueueServer) -> None:
        url = server.make_queue("texts")
        endpoint, texts = endpoint_at(url), ["a\x01b\x7f", "\ud83d", "\ufffe\uffff", "🗄 ü", '"\\']
        for text in texts:
            run = run_for(endpoint, body={"text": text})
            run.record.payload["schedule"] = f"odd {text}"
            delivered(deliver(run))
        bodies = [json.loads(message["Body"]) for message in server.received(url)]
        assert sorted((body["payload"]["text"], body["schedule"]) for body in bodies) == sorted(
            (text, f"odd {text}") for text in texts
        )

    def test_an_event_goes_to_the_present_url_of_its_endpoint_or_else_to_its_own(
        self, server: QueueServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        right = server.make_queue("right")
        run = run_for(endpoint_at(f"{server.url}/1/wrong"))
        Endpoint.objects.update(url=right)
        delivered(deliver(run))
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        run = run_for(None)
        run.record.payload["url"] = right
        delivered(deliver(run))
        assert len(server.received(right)) == 2

    def test_a_worker_asks_the_database_once_a_second_and_a_run_that_has_to_end_sends_nothing(
        self,
        scripted: ScriptedServer,
        django_assert_num_queries: DjangoAssertNumQueries,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        scripted.body, endpoint = TAKEN, scripted_endpoint(scripted)
        with django_assert_num_queries(3):
            for number in range(1, 5):
                delivered(deliver(run_for(endpoint, number)))
            run = run_for(endpoint)
            run.stop.set()
            assert isinstance(deliver(run), Released)
        assert len(scripted.asked) == 4
        monkeypatch.setattr(targets, "FRESH_SECONDS", 0)
        with django_assert_num_queries(3):
            delivered(deliver(run_for(endpoint, 5)))


class TestFifo:
    def test_an_event_that_is_sent_twice_is_received_once(self, server: QueueServer) -> None:
        url = server.make_queue("twice.fifo", FifoQueue="true")
        endpoint = endpoint_at(url, message_group="reports of Köln")
        outcomes = [delivered(deliver(run_for(endpoint, number))) for number in (1, 1, 2)]
        messages = server.received(url)
        assert [json.loads(message["Body"])["number"] for message in messages] == [1, 2]
        assert messages[0]["Attributes"]["MessageDeduplicationId"] == "7-20260302T120000Z-1"
        assert messages[0]["Attributes"]["MessageGroupId"] == "reports_of_K_ln"
        assert outcomes[0].facts
        assert outcomes[0].facts["sequence_number"]


def test_of_what_is_too_large_the_queue_says_so_and_the_error_what_to_do(server: QueueServer) -> None:
    endpoint = endpoint_at(server.make_queue("small", MaximumMessageSize="262144"))
    delivered(deliver(run_for(endpoint, 1, "x" * 262_000)))
    outcome = failed(deliver(run_for(endpoint, 2, "x" * 262_144)))
    assert "262,3" in outcome.error
    assert "shorten the payload template" in outcome.error
    assert (outcome.fault_of, (outcome.facts or {})["status"]) == (None, 400)
    of_none = failed(deliver(run_for(endpoint, 3, "x" * 1_048_576)))
    assert "larger than the queue takes" in of_none.error
    assert of_none.facts is None, "it was not sent"


class TestRefusals:
    def test_no_error_shows_a_password_nor_an_address_without_a_queue(self, scripted: ScriptedServer) -> None:
        for user in ("user:hunter2", "user:hun/ter2", "user:hun@ter2"):
            outcome = failed(deliver(run_for(endpoint_at(f"https://{user}@example.com/1234/events", name=user))))
            assert "ter2" not in outcome.error
        assert "a server and no queue" in failed(deliver(run_for(endpoint_at(scripted.url)))).error

    def test_a_queue_that_is_not_there(self, server: QueueServer) -> None:
        outcome = failed(deliver(run_for(endpoint_at(f"{server.url}/123456789012/none"))))
        assert outcome.error.startswith(f"{server.url}/…/none: there is no such queue: correct the URL")
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
        monkeypatch.setattr(clients, "_made", lambda key: pytest.fail("it was made anew"))
        with pytest.raises(pytest.fail.Exception, match="made anew"):
            deliver(run)

    def test_no_credentials_and_no_region_are_both_found_once_they_are_there(
        self, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keys, scripted.body = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), TAKEN
        for name in keys:
            monkeypatch.delenv(name)
        endpoint = scripted_endpoint(scripted, region="")
        assert "AWS_DEFAULT_REGION" in failed(deliver(run_for(endpoint))).error
        monkeypatch.setenv("AWS_REGION", "eu-west-1")
        assert "the worker finds no credentials: give it some" in failed(deliver(run_for(endpoint))).error
        assert scripted.asked == []
        for name in keys:
            monkeypatch.setenv(name, CREDENTIALS[name])
        delivered(deliver(run_for(endpoint)))

    def test_no_boto3(self, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "boto3", None)
        outcome = failed(deliver(run_for(scripted_endpoint(scripted))))
        assert "run `pip install 'backupsched[sqs]'`" in outcome.error

    def test_every_try_is_one_request_and_an_error_of_the_server_its_fault_unless_it_asks_for_time(
        self, scripted: ScriptedServer
    ) -> None:
        endpoint = scripted_endpoint(scripted)
        for headers, seconds in (({}, 5), ({"Retry_After": "17"}, 17)):
            scripted.refuses("RequestThrottled", "too many", status=403, **headers)
            outcome = failed(deliver(run_for(endpoint)))
            assert "asked too often (RequestThrottled: too many)" in outcome.error
            assert (outcome.retry_after, outcome.fault_of) == (seconds, None)
        scripted.refuses("InternalError", status=500)
        assert failed(deliver(run_for(endpoint))).fault_of
        assert scripted.asked == ["/"] * 3

    def test_a_server_without_queues(self, scripted: ScriptedServer) -> None:
        endpoint = scripted_endpoint(scripted)
        for scripted.body in ("{}", "[]", "<html>welcome</html>", ""):
            outcome = failed(deliver(run_for(endpoint)))
            assert "is that a server of queues?" in outcome.error
            assert outcome.fault_of


class TestAddresses:
    @pytest.mark.parametrize("public_at_first", [False, True])
    def test_a_private_one_is_refused_also_by_a_name_and_when_that_leads_there_only_as_it_is_connected_to(
        self, public_at_first: bool, scripted: ScriptedServer, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings.CALLBACKS_ALLOWED = []
        assert "is not public; what may be" in failed(deliver(run_for(scripted_endpoint(scripted)))).error
        outcome = failed(deliver(run_for(_by_name(scripted, monkeypatch, public_at_first=public_at_first))))
        assert "queues.example.com has the address 127." in outcome.error
        assert scripted.asked == []
        assert public_at_first or scripted.connections == 0
        assert outcome.fault_of is None

    def test_a_name_that_is_allowed_may_lead_anywhere(
        self, scripted: ScriptedServer, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings.CALLBACKS_ALLOWED = ["queues.example.com"]
        scripted.body = TAKEN
        delivered(deliver(run_for(_by_name(scripted, monkeypatch, public_at_first=False))))
        assert scripted.asked == ["/"]

    def test_no_redirect_is_followed_and_no_proxy_used(
        self, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A proxy would look up the name in place of us."""
        with scripted_server() as other:
            monkeypatch.setenv("http_proxy", other.url)
            scripted.status, scripted.body, scripted.headers = 307, "", {"Location": f"{other.url}/"}
            failed(deliver(run_for(scripted_endpoint(scripted))))
            assert (len(scripted.asked), other.asked) == (1, [])


def _by_name(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch, *, public_at_first: bool) -> Endpoint:
    """An endpoint by a name that leads to `scripted`; public_at_first: only from the second look-up on."""
    looked_up: list[str] = []
    look_up = socket.getaddrinfo
    [address, port] = re.findall(r"http://([\d.]+):(\d+)", scripted.url)[0]

    def answer(host: str, *rest: Any, **more: Any) -> Any:
        if host != "queues.example.com":
            return look_up(host, *rest, **more)
        looked_up.append(host)
        found = "93.184.215.14" if public_at_first and len(looked_up) == 1 else address
        return look_up(found, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return endpoint_at(f"http://queues.example.com:{port}/1/events")
