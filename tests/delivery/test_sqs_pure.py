"""What the address of a queue says, what is sent to it, and what its refusals mean. Without a server."""

import json
from typing import Any

import pytest
from botocore import exceptions
from botocore.exceptions import ClientError

from delivery.addresses import Refused
from delivery.handlers import body_of
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
        with pytest.raises(Refused):
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


def answered(code: str, message: str = "no", status: int | None = 400, **headers: str) -> Meaning:
    about = {"HTTPStatusCode": status, "HTTPHeaders": headers} if status else {}
    error = ClientError({"Error": {"Code": code, "Message": message}, "ResponseMetadata": about}, "SendMessage")  # type: ignore[typeddict-item]
    return meaning_of(error, 7, 5, 30)


class TestRefusals:
    @pytest.mark.parametrize(
        ("code", "advice"),
        [
            ("QueueDoesNotExist", "correct the URL"),
            ("AWS.SimpleQueueService.NonExistentQueue", "correct the URL"),
            ("AccessDenied", "allow sqs:SendMessage"),
            ("KmsAccessDenied", "kms:GenerateDataKey"),
            ("InvalidMessageContents", "change the payload template"),
            ("SomethingNew", "SomethingNew: no"),
        ],
    )
    def test_say_what_to_do_and_are_no_fault_of_the_host(self, code: str, advice: str) -> None:
        meaning = answered(code)
        assert advice in meaning.text
        assert (meaning.by_server, meaning.credentials, meaning.retry_after, meaning.status) == (False, False, 0, 400)

    @pytest.mark.parametrize("code", ["ExpiredToken", "InvalidClientTokenId", "SignatureDoesNotMatch"])
    def test_for_credentials_ask_for_new_ones(self, code: str) -> None:
        meaning = answered(code, status=403)
        assert meaning.credentials
        assert "renew them" in meaning.text

    @pytest.mark.parametrize(
        ("header", "seconds"),
        [("17", 17.0), ("", THROTTLED_FOR), ("soon", THROTTLED_FOR), ("-3", THROTTLED_FOR), ("nan", THROTTLED_FOR)],
    )
    def test_for_being_asked_too_often_are_honoured(self, header: str, seconds: float) -> None:
        assert answered("ThrottlingException", **{"retry-after": header}).retry_after == seconds
        assert answered("SomethingNew", status=429, **{"retry-after": header}).retry_after == seconds

    def test_of_a_server_that_is_broken_are_its_fault(self) -> None:
        assert answered("InternalFailure", status=500).by_server
        assert answered("InternalFailure", status=None).by_server

    def test_in_xml_are_read_and_pages_are_cut_short(self) -> None:
        meaning = answered("403", "<Error><Code>ExpiredToken</Code><Message>it has expired</Message></Error>", 403)
        assert meaning.credentials
        assert "ExpiredToken: it has expired" in meaning.text
        assert len(answered("502", "<html>" + "x" * 5000, 502).text) < 400


class TestWithoutAnAnswer:
    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (exceptions.ConnectTimeoutError(endpoint_url="u"), "did not accept a connection within 5 s"),
            (exceptions.ReadTimeoutError(endpoint_url="u"), "did not answer within 30 s"),
            (exceptions.ConnectionClosedError(endpoint_url="u"), "hung up"),
            (exceptions.EndpointConnectionError(endpoint_url="u", error=OSError(111, "Connection refused")), "refused"),
            (exceptions.SSLError(endpoint_url="u", error=OSError("certificate")), "does not speak TLS with us: cert"),
            (exceptions.HTTPClientError(error=OSError("odd")), "the request failed: odd"),
            (KeyError("Messages"), "is that a server of queues?"),
        ],
    )
    def test_the_server_is_at_fault(self, error: Exception, text: str) -> None:
        meaning = meaning_of(error, 7, 5, 30)
        assert text in meaning.text
        assert meaning.by_server

    @pytest.mark.parametrize(
        "error", [exceptions.NoCredentialsError(), exceptions.ProfileNotFound(profile="x")]
    )  # fmt: skip
    def test_missing_credentials_are_not_its_fault(self, error: Exception) -> None:
        meaning = meaning_of(error, 7, 5, 30)
        assert (meaning.credentials, meaning.by_server) == (True, False)

    def test_what_we_ask_wrongly_is_not_its_fault(self) -> None:
        meaning = meaning_of(exceptions.ParamValidationError(report="QueueUrl is no text"), 7, 5, 30)
        assert not meaning.by_server
        assert "QueueUrl is no text" in meaning.text
