"""What is delivered: the same document whichever way it goes. Pure."""

import json
from typing import Any


def message_of(payload: dict[str, Any], subject: str = "") -> dict[str, Any]:
    """The document that a receiver gets, from the payload of an event's record.

    `payload` in it is the schedule's template, rendered. What a program put on the backlog may lack some of it: that is
    None, but for the event id, in whose place its subject stands.
    """
    return {
        "schedule": payload.get("schedule"),
        "trigger_at": payload.get("trigger_at"),
        "event_id": payload.get("event_id") or subject or None,
        "number": payload.get("number"),
        "count": payload.get("count"),
        "payload": payload.get("body"),
    }


def body_of(payload: dict[str, Any], subject: str = "") -> str:
    """That document as JSON, without spaces and in ASCII: some receivers refuse characters that JSON allows."""
    return json.dumps(message_of(payload, subject), separators=(",", ":"))
