"""Events delivered to queues: what arrives, and the error when nothing does. With a server that speaks SQS."""

import json
import sys
import threading
from pathlib import Path

import pytest
from aiohttp import web
from pytest_django import DjangoAssertNumQueries

from delivery.models import Endpoint
from delivery.sqs import signature
from jobs.outcomes import BreakerTarget, Failed
from tests.delivery.queue_servers import (
    CREDENTIALS,
    TAKEN,
    QueueServer,
    ScriptedServer,
    deliver,
    delivered,
    endpoint_at,
    failed,
    run_for,
    scripted_endpoint,
)
from tests.delivery.receiver import receiving
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.usefixtures("_worker_of_queues")]


@pytest.mark.promise
def test_an_event_is_one_message_and_its_answer_is_kept(scripted: ScriptedServer) -> None:
    scripted.body = TAKEN
    outcome = delivered(run_for(scripted_endpoint(scripted), body={"shard": 3}))
    assert outcome.facts
    assert (outcome.facts["status"], outcome.facts["message_id"]) == (200, "message 1")
    [sent] = [json.loads(body) for body in scripted.bodies]
    assert sent["QueueUrl"] == f"{scripted.url}/1/events"
    assert json.loads(sent["MessageBody"])["payload"] == {"shard": 3}


class TestWhatArrives:
    def test_the_document_of_a_callback_with_two_attributes(self, server: QueueServer) -> None:
        url = server.make_queue("document")
        outcome = delivered(run_for(endpoint_at(url), 3, {"shard": 3, "of": "zehn Äpfel"}))
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
            delivered(run)
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
        delivered(run)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        run = run_for(None)
        run.record.payload["url"] = right
        delivered(run)
        assert len(server.received(right)) == 2

    def test_a_worker_asks_the_database_once_a_second(
        self, scripted: ScriptedServer, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        scripted.body, endpoint = TAKEN, scripted_endpoint(scripted)
        with django_assert_num_queries(3):
            deliver(*(run_for(endpoint, number) for number in range(1, 5)))
        assert len(scripted.asked) == 4


class TestFifo:
    def test_an_event_that_is_sent_twice_is_received_once(self, server: QueueServer) -> None:
        url = server.make_queue("twice.fifo", FifoQueue="true")
        endpoint = endpoint_at(url, message_group="reports of Köln")
        outcomes = [delivered(run_for(endpoint, number)) for number in (1, 1, 2)]
        messages = server.received(url)
        assert [json.loads(message["Body"])["number"] for message in messages] == [1, 2]
        assert messages[0]["Attributes"]["MessageDeduplicationId"] == "7-20260302T120000Z-1"
        assert messages[0]["Attributes"]["MessageGroupId"] == "reports_of_K_ln"
        assert outcomes[0].facts
        assert outcomes[0].facts["sequence_number"]


def test_of_what_is_too_large_the_queue_says_so_and_the_error_what_to_do(server: QueueServer) -> None:
    endpoint = endpoint_at(server.make_queue("small", MaximumMessageSize="262144"))
    delivered(run_for(endpoint, 1, "x" * 262_000))
    outcome = failed(run_for(endpoint, 2, "x" * 262_144))
    assert "262,3" in outcome.error
    assert "shorten the payload template" in outcome.error
    assert (outcome.fault_of, (outcome.facts or {})["status"]) == (None, 400)
    of_none = failed(run_for(endpoint, 3, "x" * 1_048_576))
    assert "larger than the queue takes" in of_none.error
    assert of_none.facts is None, "it was not sent"


class TestRefusals:
    def test_no_error_shows_a_password_nor_an_address_without_a_queue(self, scripted: ScriptedServer) -> None:
        for user in ("user:hunter2", "user:hun/ter2", "user:hun@ter2"):
            outcome = failed(run_for(endpoint_at(f"https://{user}@example.com/1234/events", name=user)))
            assert "ter2" not in outcome.error
        assert "a server and no queue" in failed(run_for(endpoint_at(scripted.url))).error

    def test_a_queue_that_is_not_there(self, server: QueueServer) -> None:
        outcome = failed(run_for(endpoint_at(f"{server.url}/123456789012/none")))
        assert outcome.error.startswith(f"{server.url}/…/none: there is no such queue: correct the URL")
        assert outcome.fault_of is None

    def test_wrong_credentials_are_looked_for_anew(self, server: QueueServer, monkeypatch: pytest.MonkeyPatch) -> None:
        run = run_for(endpoint_at(server.make_queue("closed")))
        right = server.make_account("sqs:SendMessage")
        server.check_credentials("0")
        try:
            outcome = failed(run)
            for name, value in right.items():
                monkeypatch.setenv(name, value)
            delivered(run)
        finally:
            server.check_credentials("inf")
        assert "the worker's credentials are not accepted" in outcome.error
        assert "a secret" not in outcome.error
        assert outcome.fault_of is None

    def test_no_credentials_and_no_region_are_both_found_once_they_are_there(
        self, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keys, scripted.body = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), TAKEN
        for name in keys:
            monkeypatch.delenv(name)
        endpoint = scripted_endpoint(scripted, region="")
        assert "AWS_DEFAULT_REGION" in failed(run_for(endpoint)).error
        monkeypatch.setenv("AWS_REGION", "eu-west-1")
        assert "the worker finds no credentials: give it some" in failed(run_for(endpoint)).error
        assert scripted.asked == []
        for name in keys:
            monkeypatch.setenv(name, CREDENTIALS[name])
        delivered(run_for(endpoint))

    def test_a_search_for_credentials_that_never_ends_is_given_up_and_holds_up_no_loop(
        self, scripted: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        config, end = tmp_path / "config", tmp_path / "end"
        config.write_text(f"[default]\ncredential_process = sh -c 'until [ -e {end} ]; do sleep 0.05; done'\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        monkeypatch.setattr(signature, "SECONDS", 0.3)
        endpoint = scripted_endpoint(scripted)
        try:
            for _ in range(2):
                assert "(it has looked for" in failed(run_for(endpoint)).error
        finally:
            end.touch()
            for search in threading.enumerate():  # one that began late would hold up the searches of other tests
                if search.name == "aside":
                    search.join(PATIENCE)
        assert scripted.asked == []

    def test_no_boto3(self, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "boto3", None)
        outcome = failed(run_for(scripted_endpoint(scripted)))
        assert "run `pip install 'backupsched[sqs]'`" in outcome.error

    def test_every_try_is_one_request_and_an_error_of_the_server_its_fault_unless_it_asks_for_time(
        self, scripted: ScriptedServer
    ) -> None:
        endpoint = scripted_endpoint(scripted)
        for headers, seconds in (({}, 5), ({"Retry_After": "17"}, 17)):
            scripted.refuses("RequestThrottled", "too many", status=403, **headers)
            outcome = failed(run_for(endpoint))
            assert "too many requests (RequestThrottled: too many)" in outcome.error
            assert (outcome.retry_after, outcome.fault_of) == (seconds, None)
        scripted.refuses("InternalError", status=500)
        assert failed(run_for(endpoint)).fault_of
        assert scripted.asked == ["/"] * 3

    def test_a_server_without_queues(self, scripted: ScriptedServer) -> None:
        endpoint = scripted_endpoint(scripted)
        for scripted.body in ("{}", "[]", "<html>welcome</html>", ""):
            outcome = failed(run_for(endpoint))
            assert "is it a server of queues?" in outcome.error
            assert outcome.fault_of


def test_what_a_server_does_wrong_is_proved_right_once_by_what_it_takes_after_that() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        status = answers.pop(0)
        if status is None and request.transport:
            request.transport.abort()
        return web.json_response(json.loads(TAKEN), status=status or 500)

    answers: list[int | None] = [None, 200, 200, 500, 400, 200]  # the first hangs up
    with receiving(answer) as receiver:
        endpoint = endpoint_at(f"{receiver.origin}/1/events")
        outcomes = deliver(*(run_for(endpoint, number) for number in range(len(answers))))
        guarded = BreakerTarget(f"host:{receiver.origin}", receiver.origin)
    found = [each.fault_of if isinstance(each, Failed) else getattr(each, "proves", each) for each in outcomes]
    assert found == [guarded, guarded, None, guarded, None, guarded]
    assert [isinstance(each, Failed) for each in outcomes] == [True, False, False, True, True, False]
