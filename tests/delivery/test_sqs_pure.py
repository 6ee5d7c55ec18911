"""The address of a queue, the messages sent to it, and the meaning of its refusals. Without a server."""

import json
from typing import Any

import pytest

from delivery.addresses import AddressRefused
from delivery.events import body_of
from delivery.sqs.errors import THROTTLED_FOR, Meaning, meaning_of
from delivery.sqs.queues import queue_at, region_of, request_for, size_of


class TestRegions:
    @pytest.mark.parametrize(
        ("host", "region"),
        [
            ("sqs.eu-central-1.amazonaws.com", "eu-central-1"),
            ("eu-west-1.queue.amazonaws.com", "eu-west-1"),
            ("queue.amazonaws.com", "us-east-1"),
            ("sqs-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
            ("sqs.cn-north-1.amazonaws.com.cn", "cn-north-1"),
            ("sqs.ap-southeast-2.api.aws", "ap-southeast-2"),
            ("vpce-1a-2b.sqs.us-east-2.vpce.amazonaws.com", "us-east-2"),
            ("sqs.example.com", ""),
            ("eu-west-1.example.com", ""),
            ("93.184.215.14", ""),
        ],
    )
    def test_stand_in_the_names_of_servers(self, host: str, region: str) -> None:
        assert region_of(host) == region

    def test_that_an_endpoint_names_come_first(self) -> None:
        assert queue_at("https://sqs.eu-central-1.amazonaws.com/1/events", "us-east-1").region == "us-east-1"


class TestAddresses:
    def test_the_server_is_scheme_host_and_port(self) -> None:
        queue = queue_at("https://SQS.eu-central-1.amazonaws.com/1234/events.fifo/")
        assert queue.server == "https://sqs.eu-central-1.amazonaws.com:443"
        assert queue.is_fifo
        assert not queue_at("http://example.com:9324/queue/fifo").is_fifo

    def test_people_see_no_account(self) -> None:
        assert str(queue_at("https://sqs.eu-west-1.amazonaws.com/1234/events?a=b")).endswith(".com:443/…/events")
        assert str(queue_at("http://example.com:9324/events")) == "http://example.com:9324/events"

    @pytest.mark.parametrize("url", ["", "events", "https://", "https://sqs.eu-west-1.amazonaws.com", "sqs://host/1/q"])
    def test_what_is_no_queue_is_refused(self, url: str) -> None:
        with pytest.raises(AddressRefused):
            queue_at(url)


class TestMessages:
    def test_what_a_program_made_has_its_subject_for_an_id(self) -> None:
        assert json.loads(body_of({"body": [1]}, "order 7")) == {
            "schedule": None, "trigger_at": None, "event_id": "order 7", "number": None, "count": None, "payload": [1],
        }  # fmt: skip
        request = request_for(queue_at("https://example.com/1/q.fifo"), {}, "order 7", "")
        assert (request["MessageDeduplicationId"], request["MessageGroupId"]) == ("order_7", "schedule-order_7")
        assert request["MessageAttributes"] == {"event_id": {"DataType": "String", "StringValue": "order 7"}}

    def test_the_body_is_ascii(self) -> None:
        assert body_of({"body": "ü\ufffe"}, "").isascii()

    def test_the_size_is_that_of_body_and_attributes(self) -> None:
        request: dict[str, Any] = {
            "MessageBody": "12345",
            "MessageAttributes": {"ä": {"DataType": "String", "StringValue": "ö"}},
        }
        assert size_of(request) == 5 + 2 + 6 + 2


def answered(code: str, message: str = "no", status: int = 400, retry_after: str = "") -> Meaning:
    answer = json.dumps({"__type": f"com.amazonaws.sqs#{code}", "message": message})
    return meaning_of(status, answer, retry_after, 7)


class TestRefusals:
    @pytest.mark.parametrize(
        ("code", "status", "text", "is_at_fault"),
        [
            ("QueueDoesNotExist", 400, "correct the URL", ""),
            ("AWS.SimpleQueueService.NonExistentQueue", 400, "correct the URL", ""),
            ("AccessDenied", 403, "allow sqs:SendMessage", ""),
            ("KmsAccessDenied", 400, "kms:GenerateDataKey", ""),
            ("InvalidMessageContents", 400, "change the payload template", ""),
            ("SomethingNew", 400, "SomethingNew: no", ""),
            ("", 404, "404 Not Found: no", ""),
            ("ExpiredToken", 403, "renew them", "credentials"),
            ("SignatureDoesNotMatch", 403, "renew them", "credentials"),
            ("InternalFailure", 500, "InternalFailure: no", "server"),
        ],
    )
    def test_say_what_to_do_and_what_is_at_fault(self, code: str, status: int, text: str, is_at_fault: str) -> None:
        meaning = answered(code, status=status)
        assert text in meaning.text
        assert (meaning.by_server, meaning.credentials) == (is_at_fault == "server", is_at_fault == "credentials")
        assert meaning.retry_after == 0

    @pytest.mark.parametrize(("header", "seconds"), [("17", 17.0), ("", THROTTLED_FOR), ("-3", THROTTLED_FOR)])
    def test_for_being_asked_too_often_are_honoured(self, header: str, seconds: float) -> None:
        assert answered("ThrottlingException", retry_after=header).retry_after == seconds
        assert answered("SomethingNew", status=429, retry_after=header).retry_after == seconds

    def test_in_xml_are_read_and_pages_are_cut_short(self) -> None:
        xml = "<Error><Code>ExpiredToken</Code><Message>it has expired</Message></Error>"
        meaning = meaning_of(403, xml, "", 7)
        assert meaning.credentials
        assert "ExpiredToken: it has expired" in meaning.text
        page = meaning_of(502, "<html>" + "x" * 5000, "", 7)
        assert (len(page.text) < 400, page.by_server) == (True, True)
