"""What it means when a queue refuses a message: in words for people, and whose fault it is. Pure.

Errors are distinguished by their codes and the names of their classes, so boto3 need not be installed to read this.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from delivery.addresses import Refused
from delivery.http.answers import quoted, seconds_until

THROTTLED_FOR = 5.0
"""Seconds that a queue is left alone that refuses what comes too often, and names no time."""

CODE_IN_XML, MESSAGE_IN_XML = re.compile(r"<Code>([\w.]+)</Code>"), re.compile(r"<Message>([^<]*)</Message>")

THROTTLED = frozenset({
    "RequestThrottled", "Throttling", "ThrottlingException", "ThrottledException", "RequestLimitExceeded",
    "TooManyRequestsException", "SlowDown", "KmsThrottled", "OverLimit",
})  # fmt: skip

CREDENTIALS = frozenset({
    "InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "SignatureDoesNotMatch",
    "ExpiredToken", "ExpiredTokenException", "InvalidToken", "InvalidSecurity", "AuthFailure", "IncompleteSignature",
    "MissingAuthenticationToken", "MissingAuthenticationTokenException",
})  # fmt: skip

NO_CREDENTIALS = frozenset({
    "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "ProfileNotFound", "ConfigNotFound",
    "MetadataRetrievalError", "TokenRetrievalError", "SSOTokenLoadError", "UnauthorizedSSOTokenError",
    "ConfigParseError", "InvalidConfigError",
})  # fmt: skip
"""Classes of boto3's errors that are about finding credentials."""

SERVER_TROUBLE = {
    "ConnectTimeoutError": "the server did not accept a connection within {connect:g} s",
    "ReadTimeoutError": "the server did not answer within {answer:g} s",
    "EndpointConnectionError": "the server could not be reached: {cause}",
    "ConnectionClosedError": "the server hung up without an answer",
    "SSLError": "the server does not speak TLS with us: {cause}",
    "HTTPClientError": "the request failed: {cause}",
}
"""Classes of boto3's errors that are about reaching the server, the exact ones first."""

WHAT_TO_DO = {
    "QueueDoesNotExist": "there is no such queue: correct the URL of the endpoint, or make the queue",
    "QueueDeletedRecently": "the queue was deleted a moment ago: make it again",
    "InvalidAddress": "that is no address of a queue: correct the URL of the endpoint",
    "AccessDenied": "the credentials that the worker finds may not send to it: allow sqs:SendMessage on this queue",
    "KmsAccessDenied": "the queue is encrypted: allow the worker's credentials kms:GenerateDataKey and kms:Decrypt",
    "KmsDisabled": "the key that encrypts the queue is disabled: enable it",
    "KmsNotFound": "the key that encrypts the queue is gone: give the queue another one",
    "InvalidMessageContents": "the message holds a character that the queue refuses: change the payload template",
    "UnsupportedOperation": "the queue does not take this: is its URL that of a FIFO queue, and it is none?",
    "RequestExpired": "the clock of this host is wrong: set it",
    "RequestTimeTooSkewed": "the clock of this host is wrong: set it",
}
SAME_AS = {
    "NonExistentQueue": "QueueDoesNotExist",
    "AccessDeniedException": "AccessDenied",
    "AccessControlListNotFound": "AccessDenied",
    "OptInRequired": "AccessDenied",
    "KmsInvalidState": "KmsDisabled",
}

RAISED_BY_BOTO = frozenset({"BotoCoreError", "Boto3Error", "ClientError"})

NO_QUEUES = "it answered as no queue does; is that a server of queues?"
NEW_CREDENTIALS = (
    "the worker's credentials are not accepted: renew them where boto3 looks for them (environment, shared credentials "
    "file, role of the machine)"
)
FIND_CREDENTIALS = (
    "the worker finds no credentials: give it some where boto3 looks for them (environment, shared credentials file, "
    "role of the machine)"
)


@dataclass(frozen=True)
class Meaning:
    """A refusal: what to say; seconds to leave the queue alone; whether the server was at fault, or the credentials;
    the status of the answer, if there was one."""

    text: str
    retry_after: float = 0.0
    by_server: bool = False
    credentials: bool = False
    status: int | None = None


def meaning_of(error: Exception, size: int, connect_timeout: float, timeout: float) -> Meaning:
    """What an error of boto3 means for a message of `size` bytes. Both times in seconds."""
    answer: dict[str, Any] = getattr(error, "response", None) or {}
    return _of_answer(answer, size) if answer else _without_answer(error, connect_timeout, timeout)


def _without_answer(error: Exception, connect_timeout: float, timeout: float) -> Meaning:
    names = [base.__name__ for base in type(error).__mro__]
    if isinstance(refused := getattr(error, "kwargs", {}).get("error"), Refused):
        return Meaning(f"nothing may be sent there: {refused}")
    if not NO_CREDENTIALS.isdisjoint(names):
        return Meaning(f"{FIND_CREDENTIALS} ({quoted(str(error))})", credentials=True)
    if RAISED_BY_BOTO.isdisjoint(names):  # its parsers', for an answer that is no queue's
        return Meaning(f"{NO_QUEUES} ({quoted(str(error))})", by_server=True)
    if words := next((SERVER_TROUBLE[name] for name in names if name in SERVER_TROUBLE), None):
        cause = quoted(str(_cause(error)))
        return Meaning(words.format(cause=cause, connect=connect_timeout, answer=timeout), by_server=True)
    return Meaning(quoted(str(error)) or "boto3 gave no reason")


def _of_answer(answer: dict[str, Any], size: int) -> Meaning:
    error, about = answer.get("Error") or {}, answer.get("ResponseMetadata") or {}
    code, message = str(error.get("Code") or "no code"), str(error.get("Message") or "")
    status = about.get("HTTPStatusCode")
    if code.isdigit() and (within := CODE_IN_XML.search(message)):  # other servers answer in XML, whatever was asked
        code, message = within[1], next(iter(MESSAGE_IN_XML.findall(message)), "")
    text = f"{code}: {quoted(message)}" if message else code
    if code in THROTTLED or status == 429:
        asked_for = (about.get("HTTPHeaders") or {}).get("retry-after") or ""
        wait = seconds_until(asked_for, datetime.now(UTC)) or THROTTLED_FOR
        return Meaning(f"the queue is asked too often ({text})", retry_after=wait, status=status)
    if code in CREDENTIALS:
        return Meaning(f"{NEW_CREDENTIALS} ({text})", credentials=True, status=status)
    if "must be shorter than" in message or code in ("MessageTooLong", "BatchRequestTooLong"):
        return Meaning(f"{too_large(size)} ({text})", status=status)
    plain = code.removeprefix("AWS.SimpleQueueService.")
    advice = WHAT_TO_DO.get(SAME_AS.get(plain, plain), "")
    by_server = status is None or status >= 500
    return Meaning(f"{advice} ({text})" if advice else text, by_server=by_server, status=status)


def too_large(size: int) -> str:
    return (
        f"the message is larger than the queue takes ({size:,} bytes): shorten the payload template, as to the address "
        "from which the receiver fetches the rest, or raise the queue's maximum message size"
    )


def _cause(error: Exception) -> object:
    """What boto3 met below itself, in the system's words."""
    cause: object = getattr(error, "kwargs", {}).get("error", error)
    while (below := getattr(cause, "__cause__", None) or getattr(cause, "__context__", None)) is not None:
        cause = below
    return getattr(cause, "strerror", None) or cause
