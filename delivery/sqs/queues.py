"""The address of a queue, and the message that is sent to it. Pure."""

import re
from dataclasses import dataclass
from typing import Any

from delivery.addresses import AddressRefused, read
from delivery.events import body_of, event_id_of

LARGEST_MESSAGE = 1_048_576
"""Bytes of body and attributes that any queue accepts. A queue may accept less, such as 262,144, and reports that."""

LONGEST_GROUP = 128

REGION = "[a-z]{2}(?:-[a-z]+)+-[0-9]+"
REGION_IN_HOST = re.compile(
    rf"(?:^|\.)sqs(?:-fips)?\.({REGION})\.|^({REGION})\.queue\.|^({REGION})\.sqs(?:-fips)?\.", re.ASCII
)
OLDEST_HOST = "queue.amazonaws.com"
"""The first form of addresses of queues in us-east-1."""

REFUSED_CHARACTERS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
REFUSED_IN_A_GROUP = re.compile(r"[^!-~]")


@dataclass(frozen=True)
class Queue:
    """A queue: its address, its server (scheme, host and port), its region (empty if unknown)."""

    url: str
    server: str
    path: str
    region: str

    @property
    def is_fifo(self) -> bool:
        return self.path.endswith(".fifo")

    def __str__(self) -> str:
        """The address for users, such as https://sqs.eu-central-1.amazonaws.com:443/…/events, without the account."""
        before, _, name = self.path.rpartition("/")
        return f"{self.server}/{'…/' if before else ''}{name}"


def queue_at(url: str, region: str = "") -> Queue:
    """The queue with that address. `region`: the region set on the endpoint; if empty, the one in the address.

    Raises: AddressRefused with the problem of the address.
    """
    place = read(url)
    path = place.url.path.rstrip("/")
    if not path:
        raise AddressRefused(
            f"the URL names a server and no queue; that of a queue looks like https://{place.host}/123456789012/events"
        )
    return Queue(url, place.origin, path, region or region_of(place.host))


def region_of(host: str) -> str:
    """The region in the name of a server; empty if there is none."""
    if found := REGION_IN_HOST.search(host):
        return str(found[found.lastindex or 0])
    return "us-east-1" if host == OLDEST_HOST else ""


def request_for(queue: Queue, payload: dict[str, Any], subject: str, message_group: str = "") -> dict[str, Any]:
    """The parameters of SendMessage for the event of a record with that payload and subject.

    On a FIFO queue the group is `message_group`, or else one for each schedule, and the event id prevents a second
    delivery of a message that is sent again within 5 minutes.
    """
    event_id = event_id_of(payload, subject)
    attributes = {"event_id": event_id, "schedule": str(payload.get("schedule") or "")}
    request: dict[str, Any] = {
        "QueueUrl": queue.url,
        "MessageBody": body_of(payload, subject),
        "MessageAttributes": {
            name: {"DataType": "String", "StringValue": sent}
            for name, text in attributes.items()
            if (sent := _sent(text))
        },
    }
    if queue.is_fifo:
        group = message_group or f"schedule-{event_id.partition('-')[0]}"
        request["MessageGroupId"] = REFUSED_IN_A_GROUP.sub("_", group)[:LONGEST_GROUP]
        request["MessageDeduplicationId"] = REFUSED_IN_A_GROUP.sub("_", event_id)[:LONGEST_GROUP]
    return request


def size_of(request: dict[str, Any]) -> int:
    """Bytes that a queue counts: the body, and of attributes name, type and text."""
    attributes = request["MessageAttributes"].items()
    counted = (name + value["DataType"] + value["StringValue"] for name, value in attributes)
    return len(request["MessageBody"].encode()) + sum(len(text.encode()) for text in counted)


def _sent(text: str) -> str:
    """`text` without characters for which a queue refuses the whole message."""
    return REFUSED_CHARACTERS.sub("�", text)
