"""Answers of a queue to a message: the meaning of each refusal as text for users, and whose fault it is. Pure."""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from delivery.http.failures import named, quoted, seconds_until

THROTTLED_FOR = 5.0
"""Seconds for which a queue is left alone that refuses too many messages without naming a time."""

CODE_IN_XML, MESSAGE_IN_XML = re.compile(r"<Code>([\w.]+)</Code>"), re.compile(r"<Message>([^<]*)</Message>")

THROTTLED = frozenset({
    "RequestThrottled", "Throttling", "ThrottlingException", "ThrottledException", "RequestLimitExceeded",
    "TooManyRequestsException", "SlowDown", "KmsThrottled", "OverLimit",
})  # fmt: skip

CREDENTIALS = frozenset({
    "InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "SignatureDoesNotMatch",
    "ExpiredToken", "ExpiredTokenException", "InvalidToken", "InvalidSecurity", "AuthFailure", "IncompleteSignature",
    "MissingAuthenticationToken", "MissingAuthenticationTokenException", "InvalidSignatureException",
    "IncompleteSignatureException",
})  # fmt: skip

WHAT_TO_DO = {
    "QueueDoesNotExist": "there is no such queue: correct the URL of the endpoint, or make the queue",
    "QueueDeletedRecently": "the queue was deleted a moment ago: make it again",
    "InvalidAddress": "that is not the address of a queue: correct the URL of the endpoint",
    "AccessDenied": "the credentials that the worker finds may not send to it: allow sqs:SendMessage on this queue",
    "KmsAccessDenied": "the queue is encrypted: allow the worker's credentials kms:GenerateDataKey and kms:Decrypt",
    "KmsDisabled": "the key that encrypts the queue is disabled: enable it",
    "KmsNotFound": "the key that encrypts the queue is gone: give the queue another one",
    "InvalidMessageContents": "the message holds a character that the queue refuses: change the payload template",
    "UnsupportedOperation": "the queue does not take this: does its URL name a FIFO queue, although it is not one?",
    "RequestExpired": "this host's clock is wrong: set it",
    "RequestTimeTooSkewed": "this host's clock is wrong: set it",
}
SAME_AS = {
    "NonExistentQueue": "QueueDoesNotExist",
    "AccessDeniedException": "AccessDenied",
    "AccessControlListNotFound": "AccessDenied",
    "OptInRequired": "AccessDenied",
    "KmsInvalidState": "KmsDisabled",
}

NO_QUEUES = "its answer is not that of a queue; is it a server of queues?"
NEW_CREDENTIALS = (
    "the worker's credentials are not accepted: renew them where boto3 looks for them (environment, shared credentials "
    "file, role of the machine)"
)


@dataclass(frozen=True)
class Meaning:
    """A refusal: its text; seconds to leave the queue alone; True if the server or the credentials were at fault."""

    text: str
    retry_after: float = 0.0
    by_server: bool = False
    credentials: bool = False


def accepted(status: int, answer: str) -> dict[str, Any] | None:
    """The facts kept about the answer to an accepted message; None if it was not accepted."""
    fields = _fields_of(answer) if 200 <= status < 300 else {}
    if not fields.get("MessageId"):
        return None
    kept = {"message_id": "MessageId", "sequence_number": "SequenceNumber"}
    return {name: quoted(str(fields[theirs])) for name, theirs in kept.items() if fields.get(theirs)}


def meaning_of(status: int, answer: str, retry_after: str, size: int) -> Meaning:
    """The meaning of a refusal of a message of `size` bytes. `retry_after`: the header of that name."""
    if status < 400:
        return Meaning(f"{NO_QUEUES} ({named(status)})", by_server=True)
    code, message = _refusal_in(answer)
    text = ": ".join(filter(None, (code or named(status), quoted(message))))
    if code in THROTTLED or status == 429:
        wait = seconds_until(retry_after, datetime.now(UTC)) or THROTTLED_FOR
        return Meaning(f"the queue gets too many requests ({text})", retry_after=wait)
    if code in CREDENTIALS:
        return Meaning(f"{NEW_CREDENTIALS} ({text})", credentials=True)
    if "must be shorter than" in message or code in ("MessageTooLong", "BatchRequestTooLong"):
        return Meaning(f"{too_large(size)} ({text})")
    plain = code.removeprefix("AWS.SimpleQueueService.")
    advice = WHAT_TO_DO.get(SAME_AS.get(plain, plain), "")
    return Meaning(f"{advice} ({text})" if advice else text, by_server=status >= 500)


def _refusal_in(answer: str) -> tuple[str, str]:
    """Code and message. Some servers answer in XML, whatever was asked, and others no queue's answer at all."""
    if fields := _fields_of(answer):
        code = str(fields.get("__type") or "").rpartition("#")[2]
        return quoted(code), str(fields.get("message") or fields.get("Message") or "")
    if within := CODE_IN_XML.search(answer):
        return quoted(within[1]), next(iter(MESSAGE_IN_XML.findall(answer)), "")
    return "", answer


def _fields_of(answer: str) -> dict[str, Any]:
    """The fields of an answer; empty if it is not a JSON object."""
    try:
        fields = json.loads(answer)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def too_large(size: int) -> str:
    return (
        f"the message is larger than the queue takes ({size:,} bytes): shorten the payload template, for example to "
        "the address from which the receiver fetches the rest, or raise the queue's maximum message size"
    )
