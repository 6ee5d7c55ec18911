"""Events on the backlog: their queue, the id by which receivers know them, and the document that is delivered."""

import json
from typing import Any

QUEUE = "callbacks"


def event_id_of(payload: dict[str, Any], subject: str) -> str:
    """The id by which a receiver recognizes two deliveries of the same event."""
    return str(payload.get("event_id") or subject)


_encode = json.JSONEncoder(separators=(",", ":")).encode
"""Made once: `json.dumps` makes an encoder each time, which is as much work again."""


def body_of(payload: dict[str, Any], subject: str) -> str:
    """The document that a receiver gets by any transport, from the payload of an event's record.

    JSON without spaces and in ASCII: some receivers refuse characters that JSON allows. `payload` in it is the
    schedule's template, rendered. Records of other programs may lack some of these: they are null, except for the event
    id, which is replaced by the subject.
    """
    return _encode(
        {
            "schedule": payload.get("schedule"),
            "trigger_at": payload.get("trigger_at"),
            "event_id": event_id_of(payload, subject),
            "number": payload.get("number"),
            "count": payload.get("count"),
            "payload": payload.get("body"),
        }
    )
